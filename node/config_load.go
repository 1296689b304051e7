package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agent-reach/agent-reach/envelope"
)

// DefaultConfigFile is read when no file is named, if it is there.
const DefaultConfigFile = "config.yaml"

const maxConfigFile = 1 << 20 // bytes

// Overrides are the flags that take precedence over the file; empty ones do not.
type Overrides struct {
	Role string // --role
}

// LoadConfig reads the file at path, or config.yaml in the working folder if path is empty and it exists, or nothing. The folder of
// relative paths in it is the working folder, but for the bootstrap file that is found by default.
//
// The error lists every mistake with file, line, key and what would be right.
func LoadConfig(path string, o Overrides) (Config, error) {
	text, file, err := readConfigFile(path)
	if err != nil {
		return Config{}, err
	}
	c, d := parseConfig(file, text, o)
	if !d.set("node.bootstrap_file") {
		c.Node.BootstrapFile = filepath.Join(filepath.Dir(file), defaultBootstrapFile)
	}
	if c.Node.BootstrapFile != "" {
		var mistakes []mistake
		c.Bootstrap, mistakes = readBootstrap(c.Node.BootstrapFile, d.set("node.bootstrap_file"))
		d.mistakes = append(d.mistakes, mistakes...)
	}
	if err := mistakesError("the configuration", d.mistakes); err != nil {
		return Config{}, err
	}
	return c, nil
}

// parseConfig is LoadConfig without its files.
func parseConfig(file string, text []byte, o Overrides) (Config, *document) {
	c := Defaults()
	c.File = file
	d := readYAML(file, text, &c)
	if o.Role != "" {
		c.Node.Role = Role(o.Role)
		delete(d.lines, "node.role")
	}
	checkConfig(d, &c)
	return c, d
}

func readConfigFile(path string) (text []byte, file string, err error) {
	named := path != ""
	if !named {
		path = DefaultConfigFile
	}
	text, err = readBounded(path)
	switch {
	case err == nil:
		return text, path, nil
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	}
	return nil, "", unreadable(envelope.StepConfig, "configuration", err)
}

// readBounded reads a file of at most maxConfigFile bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(text) > maxConfigFile {
		err = fmt.Errorf("%s is over %d bytes long: not a file of this kind", path, maxConfigFile)
	}
	return text, err
}

func unreadable(step envelope.Step, what string, err error) *envelope.Error {
	return envelope.Errorf(envelope.Malformed, step, "%s cannot be read: %v", what, err)
}
