package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The sizes of the architecture.
const (
	maxFunction   = 50   // lines, from func to the closing brace
	maxParameters = 6    // context included
	maxFile       = 400  // lines
	maxPackage    = 1500 // lines with code, tests not counted
)

// TestPrintWhatIsOver only prints: run it with -v.
func TestPrintWhatIsOver(t *testing.T) {
	for _, p := range packages(t) {
		code := 0
		for _, file := range p.GoFiles {
			s := measure(t, filepath.Join(p.Dir, file))
			code += s.code
			if s.lines > maxFile {
				t.Logf("%s/%s has %d lines; %d are meant to do", p.name(), file, s.lines, maxFile)
			}
			for _, remark := range s.remarks {
				t.Logf("%s/%s:%s", p.name(), file, remark)
			}
		}
		if code > maxPackage {
			t.Logf("%s has %d lines of code; %d are meant to do", p.name(), code, maxPackage)
		}
	}
}

func TestMeasure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	text := "// Package x.\npackage x\n\n/* a\nb */\nfunc broker(a, b int, c, d, e, f, g int) {\n"
	for range maxFunction {
		text += "\t_ = a // more\n"
	}
	text += "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := measure(t, file)
	if s.code != maxFunction+3 || s.lines != maxFunction+7 || len(s.remarks) != 3 {
		t.Errorf("got %+v", s)
	}
}

type size struct {
	lines, code int
	remarks     []string // "line: what"
}

func measure(t *testing.T, path string) size {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := size{lines: files.File(parsed.Pos()).LineCount(), code: codeLines(text)}
	ast.Inspect(parsed, func(n ast.Node) bool {
		s.remarks = append(s.remarks, remarks(files, n)...)
		return true
	})
	return s
}

// codeLines counts the lines on which something else than a comment stands.
func codeLines(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := make(map[int]bool)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first, last := file.Line(pos), file.Line(pos+token.Pos(max(len(literal)-1, 0)))
		for line := first; line <= last; line++ {
			lines[line] = true
		}
	}
}

var badWord = regexp.MustCompile(`(?i)broker|manager|delegate|\b(util|common)|service|(^|[a-z_])Bus\b|Helper`)

func remarks(files *token.FileSet, n ast.Node) (out []string) {
	at := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%d: ", files.Position(n.Pos()).Line)+fmt.Sprintf(format, args...))
	}
	switch n := n.(type) {
	case *ast.FuncDecl:
		lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
		if lines > maxFunction {
			at("%s has %d lines; %d are meant to do", n.Name, lines, maxFunction)
		}
		if n.Type.Params.NumFields() > maxParameters {
			at("%s has %d parameters; %d are meant to do", n.Name, n.Type.Params.NumFields(), maxParameters)
		}
		if badWord.MatchString(n.Name.Name) {
			at("%s: there is a better word for it", n.Name)
		}
	case *ast.TypeSpec:
		if badWord.MatchString(n.Name.Name) {
			at("%s: there is a better word for it", n.Name)
		}
	}
	return out
}
