package ingress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"

	"github.com/agent-reach/agent-reach/envelope"
)

// route is one call of the API. serve's error becomes a problem document; an error that comes after the answer began is serve's to tell.
type route struct {
	method, pattern string
	serve           func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// table lists all calls. openapi.yaml describes exactly these.
func table() []route {
	return []route{
		{"POST", "/v1/messages", sealed((*Server).anyMessage)},
		{"POST", "/v1/agents", sealed(named(envelope.Register))},
		{"PUT", "/v1/agents/{id}/heartbeat", sealed(named(envelope.Heartbeat))},
		{"DELETE", "/v1/agents/{id}", sealed(named(envelope.Unregister))},
		{"POST", "/v1/lookup", sealed((*Server).lookup)},
		{"POST", "/v1/explain", sealed((*Server).explain)},
		{"GET", "/v1/link", (*Server).acceptLink},
		{"GET", "/v1/agents", (*Server).listAgents},
		{"GET", "/v1/agents/{id}", (*Server).showAgent},
		{"GET", "/v1/capabilities", (*Server).listCapabilities},
		{"GET", "/v1/nodes", (*Server).listNodes},
		{"GET", "/v1/openapi.yaml", (*Server).showAPI},
		{"GET", "/healthz", (*Server).health},
		{"GET", "/readyz", (*Server).readiness},
		{"GET", "/metrics", (*Server).metrics},
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	allowed := make(map[string][]string)
	for _, rt := range table() {
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.serve(s, w, r); err != nil {
				writeProblem(w, err)
			}
		})
		allowed[rt.pattern] = append(allowed[rt.pattern], rt.method)
		if rt.method == http.MethodGet {
			allowed[rt.pattern] = append(allowed[rt.pattern], http.MethodHead)
		}
	}
	for pattern, methods := range allowed {
		mux.HandleFunc(pattern, notAllowed(strings.Join(methods, ", ")))
	}
	mux.HandleFunc("/", notFound)
	return s.guard(mux)
}

// guard turns away what no handler should see, and keeps a handler's panic from being more than one failed call.
func (s *Server) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response{ResponseWriter: w}
		defer s.rescue(out, r)
		if len(r.TransferEncoding) > 0 { // a Content-Length beside it, which net/http hides, puts the request's end elsewhere: RFC 9112, 6.1
			out.Header().Set("Connection", "close")
		}
		switch err := checkOrigin(r); {
		case r.Method == http.MethodConnect:
			out.Header().Set("Connection", "close")
			notAllowed("")(out, r)
		case path.Clean("/"+r.URL.Path) != r.URL.Path:
			notFound(out, r) // the mux would redirect
		case err != nil:
			writeProblem(out, err)
		default:
			mux.ServeHTTP(out, r)
		}
	})
}

// rescue answers for a handler that panicked. What has begun is cut off, so that it cannot pass for whole.
func (s *Server) rescue(w *response, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	trace := w.Header().Get(traceHeader)
	s.deps.Log.Error("panic in a handler", "addr", r.RemoteAddr, "trace_id", trace, "err", fmt.Sprintf("%v\n%s", v, debug.Stack()))
	if w.started {
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, errFault)
}

var errFault = envelope.Errorf(envelope.Internal, envelope.StepCall, "a fault in the node; its log says more")

// response knows whether the answer has begun.
type response struct {
	http.ResponseWriter
	started bool
}

// WriteHeader begins the answer.
func (w *response) WriteHeader(status int) {
	w.started = true
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer if nothing did.
func (w *response) Write(b []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(b)
}

// Unwrap leads http.ResponseController to the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, statusError{
		envelope.Errorf(envelope.Unsupported, envelope.StepDecode, "no such path: %.200q", r.URL.Path).WithHint("GET /v1/openapi.yaml describes all there are"),
		http.StatusNotFound,
	})
}

func notAllowed(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := envelope.Errorf(envelope.Unsupported, envelope.StepDecode, "%.20s is not served here", r.Method)
		if allow != "" {
			w.Header().Set("Allow", allow)
			e = e.WithHint("served is: %s", allow)
		}
		writeProblem(w, statusError{e, http.StatusMethodNotAllowed})
	}
}

// checkOrigin keeps pages of other origins in a browser from speaking through its user to a node that the user can reach. Programs send none of
// the headers looked at.
func checkOrigin(r *http.Request) error {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead // a browser keeps the answer from the page
	switch {
	case origin == "" && (reads || site == "" || site == "none" || site == "same-origin"):
		return nil
	case origin != "" && sameOrigin(origin, r):
		return nil
	}
	return envelope.Errorf(envelope.Forbidden, envelope.StepPermission, "a web page of %.100q may not call this node", origin).
		WithHint("call it from a program, or serve the page from the same address")
}

func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return numeric(r.Host) || !remote(r).IsLoopback()
}

// numeric reports whether the address that a browser used is an IP address or localhost: any other name may be an attacker's that was pointed at
// this machine (DNS rebinding).
func numeric(hostport string) bool {
	name, _, err := net.SplitHostPort(hostport)
	if err != nil {
		name = hostport
	}
	_, err = netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || strings.EqualFold(name, "localhost")
}

// remote is the peer's address, the zero Addr where it has none.
func remote(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
