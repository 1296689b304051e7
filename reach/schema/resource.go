package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// resource is a part of a schema with an $id of its own, as $dynamicRef sees it.
type resource struct {
	anchors map[string]*rule // by $dynamicAnchor
}

// scope is the sequence of resources that evaluation has come through, each listed once, where it was first entered.
type scope struct {
	id     int32 // within one check; 0 is the empty scope
	in     *resource
	parent *scope
	next   map[*resource]*scope
}

// enter is the scope in which evaluation goes on in a resource.
func (c *checker) enter(home *resource) *scope {
	if c.scope == nil {
		c.scope = &scope{next: map[*resource]*scope{}}
		c.scopes = 1
	}
	for s := c.scope; s != nil; s = s.parent {
		if s.in == home {
			return c.scope
		}
		c.spend(1)
	}
	next := c.scope.next[home]
	if next == nil {
		next = &scope{c.scopes, home, c.scope, map[*resource]*scope{}}
		c.scopes++
		c.scope.next[home] = next
	}
	return next
}

// dynamicRef is a $dynamicRef whose first target has a $dynamicAnchor: the target is the rule with that anchor in the
// resource that evaluation entered first of those that have one.
type dynamicRef struct{ first *rule }

func (a dynamicRef) apply(c *checker, v int32, m marks) bool {
	target := a.first
	for s := c.scope; s.in != nil; s = s.parent {
		if r := s.in.anchors[a.first.anchor]; r != nil {
			target = r
		}
	}
	return c.eval(target, v, m)
}

// resources finds each rule's resource, and all rules that a dynamic reference may lead to.
type resources struct {
	b     *builder
	known map[string]*resource // by URL
}

// settle sets the home of every rule. Anchors may lead to further rules, so it goes on until there are no more.
func (rs *resources) settle() error {
	if err := rs.scan("", rs.b.doc); err != nil {
		return err
	}
	for i := 0; i < len(rs.b.order); i++ {
		b := rs.b.order[i]
		home, err := rs.at(b.url)
		if err != nil {
			return err
		}
		b.rule.home = home
	}
	return nil
}

// scan collects the dynamic anchors of the schema itself, below pointer p.
func (rs *resources) scan(p string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if anchor, ok := v["$dynamicAnchor"].(string); ok {
			if err := rs.addAnchor(p, anchor); err != nil {
				return err
			}
		}
		for name, child := range v {
			if err := rs.scan(p+"/"+escapeToken(name), child); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := rs.scan(p+"/"+strconv.Itoa(i), child); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rs *resources) addAnchor(p, anchor string) error {
	s, err := rs.b.compiler.Compile(location + "#" + escapeFragment(p))
	if err != nil || s.DynamicAnchor != anchor {
		return nil // not a schema: part of an enum, say
	}
	home, err := rs.at(s.Location)
	if err != nil {
		return err
	}
	home.anchors[anchor], err = rs.b.rule(s)
	return err
}

// at is the resource of the schema at a URL.
func (rs *resources) at(loc string) (*resource, error) {
	base, fragment, _ := strings.Cut(loc, "#")
	key := base
	if base == location {
		p, err := url.PathUnescape(fragment)
		if err != nil {
			return nil, err
		}
		key += "#" + rs.owner(p)
	}
	if r := rs.known[key]; r != nil {
		return r, nil
	}
	r := &resource{map[string]*rule{}}
	rs.known[key] = r
	if base == location {
		return r, nil
	}
	return r, rs.builtIn(base, r)
}

// builtIn collects the anchor of a metaschema, which stands at its root.
func (rs *resources) builtIn(base string, r *resource) error {
	s, err := rs.b.compiler.Compile(base)
	if err != nil || s.DynamicAnchor == "" {
		return err
	}
	r.anchors[s.DynamicAnchor], err = rs.b.rule(s)
	return err
}

// owner is the longest pointer to an object with an $id that leads to p.
func (rs *resources) owner(p string) string {
	owner, v := "", rs.b.doc
	for i := 0; i < len(p); {
		end := i + 1 + strings.IndexByte(p[i+1:]+"/", '/')
		v = step(v, unescapeToken(p[i+1:end]))
		if obj, ok := v.(map[string]any); ok {
			if id, ok := obj["$id"].(string); ok && !strings.HasPrefix(id, "#") {
				owner = p[:end]
			}
		}
		i = end
	}
	return owner
}
