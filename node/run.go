package node

import (
	"context"
	"errors"
	"net"
	"sync"
)

// part is something that runs until its context ends.
type part func(context.Context) error

// runParts starts the parts in order. When ctx ends, or one of them fails, it stops them in reverse, each only when those after it have
// ended, and returns the first failure.
func (n *Node) runParts(ctx context.Context, l net.Listener) error {
	parts := []part{n.watch, func(ctx context.Context) error { return n.ingress.Run(ctx, l) }}
	if n.registry != nil {
		parts = append([]part{n.registry.Run}, parts...)
	}
	stopped := context.AfterFunc(ctx, func() {
		n.log.Info("node is stopping: no new calls, running ones may end", "node", n.id, "reason", "drain_timeout_sec "+n.cfg.Node.DrainTimeoutSec.Duration().String())
	})
	defer stopped()
	err := runInOrder(ctx, parts)
	n.log.Info("node stopped", "node", n.id)
	return err
}

func runInOrder(ctx context.Context, parts []part) error {
	failed := make(chan error, len(parts))
	stops := make([]func(), len(parts))
	for i, p := range parts {
		stops[i] = start(ctx, p, failed)
	}
	var first error
	select {
	case <-ctx.Done():
	case first = <-failed:
	}
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
	return first
}

// start runs p in a goroutine of its own; its failure goes to failed, which has room for it. stop ends p and waits for that.
func start(ctx context.Context, p part, failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p(ctx); err != nil && !errors.Is(err, context.Canceled) {
			failed <- err
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// watch follows the files that may change while the node runs.
func (n *Node) watch(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { Watch(ctx, n.cfg.Auth.PublicKeyStore, n.log, n.store.Reload) })
	if n.permissions != nil {
		all.Go(func() { Watch(ctx, n.cfg.Auth.PermissionsFile, n.log, n.reloadPermissions) })
	}
	all.Wait()
	return nil
}

func (n *Node) reloadPermissions() error {
	if err := n.permissions.Reload(); err != nil {
		return err
	}
	n.log.Info("permissions read: " + n.permissions.String())
	return nil
}
