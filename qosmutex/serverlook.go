package qosmutex

import (
	"log/slog"
	"time"

	"padme/internal/vanished"
	"padme/qosmutex/register/local"
)

// lookAfterFiles notices that a file in which the server keeps its topics is not at its path any
// more, and recreates it if it was removed.
func (s *Server) lookAfterFiles() {
	registers := []*local.Register{s.own}
	if r, ok := s.register.(*local.Register); ok && r != s.own {
		registers = append(registers, r)
	}
	log := s.log.With(slog.String("participant", s.p.ID()))
	var told time.Time
	ticker := time.NewTicker(vanished.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		lost, written := false, false
		for _, r := range registers {
			if err := r.Unrewritten(); err != nil {
				log.Warn("the file of what this server notes of its locks grows: it cannot be rewritten", "error", err)
			}
			recreated, err := r.Look(s.ctx)
			lost, written = lost || err != nil, written || recreated != ""
			switch {
			case recreated != "":
				log.Warn("the file of the locks was removed: it has been recreated", "file", recreated)
			case err != nil && time.Since(told) >= time.Minute:
				told = time.Now()
				log.Error("the locks are lost when this process ends: their file has vanished", "error", err)
			}
		}
		if s.vanished.Swap(lost) && !lost && !written {
			log.Warn("the file of the locks is at its path again")
		}
	}
}
