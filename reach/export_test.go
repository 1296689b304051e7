package reach

// Decide goes the request's way from resolve to choose and stops there: what a decision costs.
func (in *Ingress) Decide(m *Message) error {
	w := in.begin(m)
	defer w.release()
	if err := w.resolve(); err != nil {
		return err
	}
	return w.choose()
}
