package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settleTime  = 200 * time.Millisecond // editors and deployments change a file in several steps
	lookAnyhow  = 10 * time.Second       // some file systems tell nothing, and a folder may be made later
	watchEvents = 64
)

// Watch calls reload whenever the file at path has changed, at every SIGHUP, and once at its start, so that no change is lost between
// the first reading and the watch. It returns when ctx ends. Only Watch's own goroutine calls reload.
//
// It watches the folder, not the file: editors and Kubernetes replace files instead of writing to them. An error of reload and a
// file that vanished are logged; reload is expected to keep what it had, and is not called for a file that is not there.
func Watch(ctx context.Context, path string, log *slog.Logger, reload func() error) {
	w := &watcher{path: path, log: log.With("file", path), reload: reload}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if notify, err := fsnotify.NewBufferedWatcher(watchEvents); err != nil {
		w.log.Warn("changes of the file are seen late: the system tells none", "err", err)
	} else {
		w.notify = notify
		defer notify.Close()
	}
	w.run(ctx, hangup)
}

type watcher struct {
	path   string
	log    *slog.Logger
	reload func() error
	notify *fsnotify.Watcher // nil: none to be had
	last   os.FileInfo       // of the file when it was last read; nil: it was not there
	gone   bool              // it cannot be read, and that was told
}

func (w *watcher) run(ctx context.Context, hangup <-chan os.Signal) {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w.notify != nil {
		events, lost = w.notify.Events, w.notify.Errors
	}
	look := time.NewTicker(lookAnyhow)
	defer look.Stop()
	var settled <-chan time.Time
	w.lookAgain(slog.LevelDebug)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			w.last, w.gone = nil, false
		case <-events:
			settled = time.After(settleTime)
			continue
		case err := <-lost: // the regular look finds what the lost event was about
			w.log.Debug("watching the file", "err", err)
			continue
		case <-settled:
			settled = nil
		case <-look.C:
		}
		w.lookAgain(slog.LevelError)
	}
}

// lookAgain reads the file if it is not the one that was read last. That it is not there is logged at level bad.
func (w *watcher) lookAgain(bad slog.Level) {
	w.follow()
	now, err := os.Stat(w.path)
	if err != nil {
		if !w.gone {
			w.log.Log(context.Background(), bad, "the file cannot be read; what it said last stays in force", "err", err)
		}
		w.gone, w.last = true, nil
		return
	}
	if unchanged(w.last, now) {
		return
	}
	w.gone, w.last = false, now
	if err := w.reload(); err != nil {
		w.log.Error("the file is refused; what it said last stays in force", "err", err)
		return
	}
	w.log.Debug("the file was read again")
}

func unchanged(last, now os.FileInfo) bool {
	return last != nil && os.SameFile(last, now) && last.ModTime().Equal(now.ModTime()) && last.Size() == now.Size()
}

// follow watches the folder of the file and, if that is a symbolic link, the folder of what it points to.
func (w *watcher) follow() {
	if w.notify == nil {
		return
	}
	folders := []string{filepath.Dir(w.path)}
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	for _, folder := range folders {
		if err := w.notify.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.log.Debug("watching the file's folder", "err", err)
		}
	}
}
