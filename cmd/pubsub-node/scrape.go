package main

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// collectEvery is how old an answer may be: much less than the time between two questions of
// anybody who reads metrics. Collecting, writing and compressing them takes some milliseconds.
const collectEvery = 100 * time.Millisecond

// scrape is an answer that several get.
type scrape struct {
	at     time.Time
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement http.ResponseWriter.
func (s *scrape) Header() http.Header         { return s.header }
func (s *scrape) WriteHeader(status int)      { s.status = status }
func (s *scrape) Write(p []byte) (int, error) { return s.body.Write(p) }

// shared asks for the metrics, one time after the other, and gives all that come within
// collectEvery the same answer. There are two, compressed and not, whatever else they ask for.
func shared(metrics http.Handler) http.Handler {
	var mu sync.Mutex
	latest := map[string]*scrape{}
	answer := func(encoding string) (*scrape, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := latest[encoding]; s != nil && time.Since(s.at) < collectEvery {
			return s, nil
		}
		r, err := http.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept-Encoding", encoding)
		s := &scrape{header: http.Header{}, status: http.StatusOK}
		metrics.ServeHTTP(s, r)
		s.at = time.Now()
		latest[encoding] = s
		return s, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encoding := "identity"
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			encoding = "gzip"
		}
		s, err := answer(encoding)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		maps.Copy(w.Header(), s.header)
		w.WriteHeader(s.status)
		_, _ = w.Write(s.body.Bytes())
	})
}
