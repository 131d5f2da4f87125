package local

import (
	"context"
	"fmt"

	"padme/internal/vanished"
)

// Look reports whether the file of the register, or one next to it, is not at its path any more, so
// that the next process would not find what this one keeps. If it was removed and nothing is in its
// place, Look recreates it, and returns the path of the register; else it returns "". The error says
// what to do. A register in memory has no files.
func (r *Register) Look(ctx context.Context) (recreated string, err error) {
	if r.journal == nil {
		return "", nil
	}
	select {
	case <-r.writing:
		defer func() { r.writing <- struct{}{} }()
	case <-ctx.Done():
		return "", nil
	}
	if r.Err() != nil {
		return "", nil
	}
	own, err := r.journal.Look(r.records)
	if err != nil {
		return "", fmt.Errorf("register: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	others, err := r.members.look()
	if own || others {
		recreated = r.path
	}
	if err != nil {
		err = fmt.Errorf("register: %w", err)
	}
	return recreated, err
}

// look recreates the files of members, if they were removed.
func (m *members) look() (recreated bool, err error) {
	if m.file == nil || m.signs == nil {
		return false, nil
	}
	if err := vanished.Look(m.file, m.path); vanished.Gone(err) {
		if failed := m.rewrite(); failed != nil {
			return false, fmt.Errorf("%w, and cannot be recreated: do not stop this process, which would lose what it keeps there: %w", err, failed)
		}
		recreated = true
	} else if err != nil {
		return false, err
	}
	if err := vanished.Look(m.signs, m.path+signsSuffix); !vanished.Gone(err) {
		return recreated, err
	}
	signs, _, err := openSigns(m.path+signsSuffix, m.run)
	if err != nil {
		return recreated, err
	}
	_ = m.signs.Close()
	m.signs = signs
	return true, nil
}
