package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

// programVersion is the linker's word, else that of the module, else "dev".
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the program and of the protocol",
		Example: "  agent-reach version --json",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if p.json {
				return p.printJSON(map[string]string{"version": programVersion(), "protocol": envelope.Version, "go": runtime.Version()})
			}
			_, err := fmt.Fprintf(p.out, "agent-reach %s, protocol %s, %s %s/%s\n", programVersion(), envelope.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
