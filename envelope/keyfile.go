package envelope

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// LoadKey reads a private key file.
func LoadKey(path string, passphrase []byte) (PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return PrivateKey{}, fileError(Malformed, err).WithHint("make one: agent-reach keys new %s", path)
	}
	key, err := ParsePrivateKey(text, passphrase)
	if err != nil {
		e := *AsError(err)
		e.Text = path + ": " + e.Text
		return PrivateKey{}, &e
	}
	return key, nil
}

// LoadOrCreateKey reads the key at path, or makes one there if the file does not exist; created tells which. Two processes
// that do so at once end with the same key.
func LoadOrCreateKey(path string, passphrase []byte) (key PrivateKey, created bool, err error) {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		key, err := LoadKey(path, passphrase)
		return key, false, err
	}
	err = CreateKey(path, GenerateKey(), passphrase)
	if err != nil && !errors.Is(err, Conflict) {
		return PrivateKey{}, false, err
	}
	key, loadErr := LoadKey(path, passphrase)
	return key, err == nil, loadErr
}

// CreateKey writes key to a new file with mode 0600. A file that is there already is left alone: Conflict.
func CreateKey(path string, key PrivateKey, passphrase []byte) error {
	text, err := MarshalPrivateKey(key, passphrase, filepath.Base(path))
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, text)
	if err != nil {
		return fileError(Internal, err)
	}
	defer os.Remove(tmp)
	err = os.Link(tmp, path) // unlike a rename, never replaces
	switch {
	case errors.Is(err, fs.ErrExist):
		return Errorf(Conflict, StepKey, "private key file %s is there already", path).because(err).WithHint("remove it first if it is no longer needed")
	case err != nil:
		return fileError(Internal, err).WithHint("keys need a file system with hard links")
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fileError(Internal, err)
	}
	return nil
}

// fileError keeps err in its chain, so that errors.Is(…, fs.ErrNotExist) holds.
func fileError(code Code, err error) *Error {
	return Errorf(code, StepKey, "private key file: %v", err).because(err)
}

// WriteFile replaces path by data with mode 0600 so that after a crash at any moment the file is whole, old or new:
// write, sync, rename, sync the folder, which is made if it is missing. Temporary files that killed writers of path left behind are removed after a
// minute, by the next write. Its error is the system's.
func WriteFile(path string, data []byte) error {
	tmp, err := writeTemp(path, data)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTemp(path string, data []byte) (name string, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if info, statErr := f.Stat(); err == nil && statErr == nil {
		removeLeftovers(dir, filepath.Base(path), info.ModTime())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// leftover is how old a temporary file must be for its writer to be dead.
const leftover = time.Minute

// removeLeftovers removes the temporary files of writers of base that were killed before they renamed them. What it cannot remove, it leaves.
func removeLeftovers(dir, base string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), "."+base+".")
		if !ok || random == "" || strings.Trim(random, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > leftover {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
