package pubsub

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/reliable"
)

func TestCoalescingIsChecked(t *testing.T) {
	p := join(t, startBroker(t), "p")
	topic := topicOf[pose](t, p, "p")
	for name, opts := range map[string][]EndpointOption{
		"negative":  {WithCoalescing(-1)},
		"too long":  {WithCoalescing(reliable.MaxCoalescing + 1)},
		"transient": {WithCoalescing(time.Millisecond), WithQoS(QoS{Reliability: Reliable, Durability: Transient})},
	} {
		if _, err := NewWriter(testContext(t), topic, opts...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "coalesc") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewReader(testContext(t), topic, WithCoalescing(time.Millisecond)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a reader coalesces: %v", err)
	}
}

// Readers name the partitions of a writer with a pattern, and may name ever new ones.
func TestBundlesOfPartitionsAreForgotten(t *testing.T) {
	a := address{delay: time.Hour, bundles: map[string]*connection.Bundle{}}
	f := connection.NewQueue()
	f.Open()
	for i := range 3 * maxBundles {
		for range 2 {
			if err := f.Put(a.packet(fmt.Sprint(i), "k", []byte("x"), reliable.AnyInstance)); err != nil {
				t.Fatal(err)
			}
		}
		if p, _, _ := f.Take(false); string(p.Payload) != "xx" {
			t.Fatalf("two samples of a partition are %q", p.Payload)
		}
	}
	if len(a.bundles) > maxBundles {
		t.Errorf("%d are remembered", len(a.bundles))
	}
}
