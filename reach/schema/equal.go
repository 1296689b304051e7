package schema

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// equal reports whether two values are the same JSON value: numbers by value, members in any order.
func equal(t *tree, a int32, u *tree, b int32) bool {
	v, w := &t.values[a], &u.values[b]
	if v.kind != w.kind || v.count != w.count {
		return false
	}
	switch v.kind {
	case number:
		return equalNumbers(t.text(a), u.text(b))
	case text:
		return bytes.Equal(t.text(a), u.text(b))
	case array:
		return equalItems(t, a, u, b)
	case object:
		return equalMembers(t, a, u, b)
	}
	return true
}

func equalNumbers(x, y []byte) bool {
	return bytes.Equal(x, y) || parseDecimal(x) == parseDecimal(y)
}

func equalItems(t *tree, a int32, u *tree, b int32) bool {
	end := t.values[a].next
	for i, j := a+1, b+1; i < end; i, j = t.values[i].next, u.values[j].next {
		if !equal(t, i, u, j) {
			return false
		}
	}
	return true
}

// equalMembers is called for equally many members.
func equalMembers(t *tree, a int32, u *tree, b int32) bool {
	if !sameOrder(t, a, u, b) {
		return equalSorted(t, t.sorted(a), u, u.sorted(b))
	}
	return equalItems(t, a, u, b)
}

func sameOrder(t *tree, a int32, u *tree, b int32) bool {
	end := t.values[a].next
	for i, j := a+1, b+1; i < end; i, j = t.values[i].next, u.values[j].next {
		if !bytes.Equal(t.name(i), u.name(j)) {
			return false
		}
	}
	return true
}

func equalSorted(t *tree, as []int32, u *tree, bs []int32) bool {
	for i, a := range as {
		if b := bs[i]; !bytes.Equal(t.name(a), u.name(b)) || !equal(t, a, u, b) {
			return false
		}
	}
	return true
}

// sorted lists an object's members by name.
func (t *tree) sorted(obj int32) []int32 {
	all := make([]int32, 0, t.values[obj].count)
	for v := obj + 1; v < t.values[obj].next; v = t.values[v].next {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b int32) int { return bytes.Compare(t.name(a), t.name(b)) })
	return all
}

// hasher sums up the values of one tree, each once. Equal values have equal sums; others, with a seed nobody knows, do not
// in practice, whatever their maker tries: lengths and counts are summed too, so that no two values read the same.
type hasher struct {
	t    *tree
	seed maphash.Seed
	sums []uint64 // by value, once known
}

func newHasher(t *tree) *hasher {
	return &hasher{t, maphash.MakeSeed(), make([]uint64, len(t.values))}
}

func (h *hasher) sum(v int32) uint64 {
	if h.sums[v] == 0 {
		h.sums[v] = h.compute(v)
	}
	return h.sums[v]
}

func (h *hasher) compute(v int32) uint64 {
	w := &h.t.values[v]
	var m maphash.Hash
	m.SetSeed(h.seed)
	m.WriteByte(byte(w.kind))
	switch w.kind {
	case number:
		m.Write(parseDecimal(h.t.text(v)).appendKey(nil))
	case text:
		m.Write(h.t.text(v))
	case array:
		h.items(v, &m)
	case object:
		writeSum(&m, h.members(v))
	}
	return m.Sum64()
}

func (h *hasher) items(v int32, m *maphash.Hash) {
	for i := v + 1; i < h.t.values[v].next; i = h.t.values[i].next {
		writeSum(m, h.sum(i))
	}
}

// members is the same in any order.
func (h *hasher) members(v int32) (all uint64) {
	for i := v + 1; i < h.t.values[v].next; i = h.t.values[i].next {
		var m maphash.Hash
		m.SetSeed(h.seed)
		writeSum(&m, h.sum(i))
		m.Write(h.t.name(i))
		all += m.Sum64()
	}
	return all
}

func writeSum(m *maphash.Hash, sum uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], sum)
	m.Write(b[:])
}

// duplicates finds the positions of two equal items, -1 if there are none.
func (h *hasher) duplicates(arr int32) (first, second int) {
	seen := make(map[uint64]item, h.t.values[arr].count)
	position := 0
	for v := arr + 1; v < h.t.values[arr].next; v = h.t.values[v].next {
		sum := h.sum(v)
		if p, ok := seen[sum]; ok && equal(h.t, v, h.t, p.value) {
			return p.position, position
		}
		seen[sum] = item{v, position}
		position++
	}
	return -1, -1
}

// item is one of an array's.
type item struct {
	value    int32
	position int
}
