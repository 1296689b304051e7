package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// childPath tells this test binary to be another process; see TestMain.
const childPath, childTask = "ENVELOPE_TEST_CHILD_PATH", "ENVELOPE_TEST_CHILD_TASK"

func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	switch os.Getenv(childTask) {
	case "":
		os.Exit(m.Run())
	case "create":
		key, created, err := envelope.LoadOrCreateKey(path, nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(key.Public(), created)
	case "write":
		for i := 0; ; i++ {
			if err := envelope.WriteFile(path, content(i)); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println("written")
		}
	}
}

// content is a file of half a megabyte of one letter, ended by a newline.
func content(i int) []byte {
	return append(bytes.Repeat([]byte{'a' + byte(i%26)}, 1<<19), '\n')
}

func child(task, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task, childPath+"="+path)
	return cmd
}

// checkFolder fails if anything but the named file is there, or its mode is not 0600.
func checkFolder(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	ok(t, err)
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	info, err := os.Stat(path)
	ok(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "node.pem")
	_, err := envelope.LoadKey(path, nil)
	want(t, err, envelope.Malformed, path, "agent-reach keys new")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not say that there is no file", err)
	}
	first, created, err := envelope.LoadOrCreateKey(path, nil)
	ok(t, err)
	second, again, err := envelope.LoadOrCreateKey(path, nil)
	ok(t, err)
	if !created || again || first.Public() != second.Public() {
		t.Errorf("created %v, then %v", created, again)
	}
	checkFolder(t, path)
	info, err := os.Stat(filepath.Dir(path))
	ok(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("folder's mode is %v", info.Mode())
	}
}

func TestKeyFileWithPassphrase(t *testing.T) {
	if race {
		t.Skip("bcrypt")
	}
	path := filepath.Join(t.TempDir(), "agent")
	key, _, err := envelope.LoadOrCreateKey(path, []byte("correct horse"))
	ok(t, err)
	got, err := envelope.LoadKey(path, []byte("correct horse"))
	ok(t, err)
	if got.Public() != key.Public() {
		t.Error("another key came out")
	}
	_, _, err = envelope.LoadOrCreateKey(path, nil)
	want(t, err, envelope.Malformed, path, "passphrase")
	if !errors.Is(err, envelope.ErrPassphrase) {
		t.Errorf("%v is not ErrPassphrase", err)
	}
}

// TestKeyFileIsNeverReplaced: whatever stands at the path stays.
func TestKeyFileIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"garbage": "no key", "empty": "", "half": "-----BEGIN PRIVATE KEY-----\nMC4CAQ"} {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte(text), 0o644))
		_, created, err := envelope.LoadOrCreateKey(path, nil)
		want(t, err, envelope.Malformed, path)
		want(t, envelope.CreateKey(path, seller, nil), envelope.Conflict, path, "remove it first")
		if got, _ := os.ReadFile(path); created || string(got) != text {
			t.Errorf("%s became %q", name, got)
		}
	}
	link := filepath.Join(dir, "link")
	ok(t, os.Symlink(filepath.Join(dir, "nothing"), link))
	want(t, envelope.CreateKey(link, seller, nil), envelope.Conflict)
	_, _, err := envelope.LoadOrCreateKey(link, nil)
	want(t, err, envelope.Malformed)
	entries, err := os.ReadDir(dir)
	ok(t, err)
	if len(entries) != 4 {
		t.Errorf("something was left behind: %v", entries)
	}
}

func TestKeyFileWhereNoneCanBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	want(t, envelope.CreateKey(filepath.Join(file, "key"), seller, nil), envelope.Internal, "private key file")
	_, _, err := envelope.LoadOrCreateKey(filepath.Join(file, "key"), nil)
	want(t, err, envelope.Malformed, "private key file")
}

func TestManyGoroutinesGetOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var mu sync.Mutex
	var all sync.WaitGroup
	keys, creators := make(map[envelope.PublicKey]int), 0
	for range 20 {
		all.Go(func() {
			key, created, err := envelope.LoadOrCreateKey(path, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			keys[key.Public()]++
			if created {
				creators++
			}
		})
	}
	all.Wait()
	if len(keys) != 1 || creators != 1 {
		t.Errorf("%d keys, %d creators", len(keys), creators)
	}
	checkFolder(t, path)
}

func TestManyProcessesGetOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	outputs := make([]bytes.Buffer, 20)
	children := make([]*exec.Cmd, len(outputs))
	for i := range children {
		children[i] = child("create", path)
		children[i].Stdout = &outputs[i]
		ok(t, children[i].Start())
	}
	keys, creators := make(map[string]int), 0
	for i, c := range children {
		ok(t, c.Wait())
		var key string
		var created bool
		_, err := fmt.Sscan(outputs[i].String(), &key, &created)
		ok(t, err)
		keys[key]++
		if created {
			creators++
		}
	}
	if len(keys) != 1 || creators != 1 {
		t.Errorf("keys %v, %d creators", keys, creators)
	}
	checkFolder(t, path)
}

// TestKilledWhileCreating: whenever the process dies, there is a whole key or none.
func TestKilledWhileCreating(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for range 10 {
		c := child("create", path)
		ok(t, c.Start())
		c.Process.Kill()
		c.Wait()
		if _, err := os.Stat(path); err == nil {
			_, err := envelope.LoadKey(path, nil)
			ok(t, err)
		}
	}
	_, _, err := envelope.LoadOrCreateKey(path, nil)
	ok(t, err)
}

// TestWriteFileIsWholeAtAnyMoment reads while another process writes, and after it was killed in the middle.
func TestWriteFileIsWholeAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.json")
	for range 3 {
		c := child("write", path)
		out, err := c.StdoutPipe()
		ok(t, err)
		ok(t, c.Start())
		line := make([]byte, len("written\n"))
		for range 10 { // ten times or more in its life
			_, err := out.Read(line)
			ok(t, err)
			checkWhole(t, path)
		}
		ok(t, c.Process.Kill())
		c.Wait()
		checkWhole(t, path)
	}
	info, err := os.Stat(path)
	ok(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func checkWhole(t *testing.T, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	ok(t, err)
	if len(got) != 1<<19+1 || !bytes.Equal(got, content(int(got[0]-'a'))) {
		t.Fatalf("file of %d bytes is torn", len(got))
	}
}

// TestWriteFileRemovesLeftovers: what killed writers left goes with a later write; what somebody else made, or may still be writing, stays.
func TestWriteFileRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Minute)
	for name, at := range map[string]time.Time{
		".store.json.123": old, ".store.json.456": time.Now(), ".store.json.swp": old, ".store.json.": old, ".other.json.123": old, "store.json.123": old,
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		ok(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	ok(t, envelope.WriteFile(filepath.Join(dir, "store.json"), []byte("new")))
	var left []string
	entries, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".other.json.123", ".store.json.", ".store.json.456", ".store.json.swp", "store.json", "store.json.123"}
	if !slices.Equal(left, want) {
		t.Errorf("left are %q", left)
	}
}

func TestWriteFileFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "taken")
	ok(t, os.MkdirAll(filepath.Join(dir, "x"), 0o700))
	if err := envelope.WriteFile(dir, []byte("data")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	ok(t, err)
	if len(entries) != 1 {
		t.Errorf("something was left behind: %v", entries)
	}
}
