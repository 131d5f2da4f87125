package pubsub

import (
	"errors"
	"testing"
	"time"
)

func TestPoliciesOfTimeAreChecked(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		topic := topicOf[int](t, v.join("a"), "t")
		for _, q := range []QoS{
			{Deadline: -1},
			{Deadline: time.Microsecond},
			{Liveliness: 3},
			{LivelinessLease: -1},
			{LivelinessLease: time.Millisecond},
			{Lifespan: -1},
			{Strength: 1},
		} {
			if _, err := NewWriter(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
				t.Errorf("writer with %+v: %v", q, err)
			}
			if _, err := NewReader(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
				t.Errorf("reader with %+v: %v", q, err)
			}
		}
		for _, q := range []QoS{{Lifespan: time.Second}, {Exclusive: true, Strength: 1}} {
			if _, err := NewReader(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
				t.Errorf("reader with %+v, which only writers have: %v", q, err)
			}
			if _, err := NewWriter(testContext(t), topic, WithQoS(q)); err != nil {
				t.Errorf("writer with %+v: %v", q, err)
			}
		}
		filtered := QoS{TimeBasedFilter: time.Second, Deadline: time.Second}
		if _, err := NewReader(testContext(t), topic, WithQoS(filtered)); err != nil {
			t.Errorf("reader with %+v: %v", filtered, err)
		}
		filtered.TimeBasedFilter++
		if _, err := NewReader(testContext(t), topic, WithQoS(filtered)); !errors.Is(err, ErrInvalid) {
			t.Errorf("reader with a filter that misses every deadline: %v", err)
		}
	})
}
