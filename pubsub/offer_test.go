package pubsub

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
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

// Participants that know nothing of these policies announce none, and understand
// who announces none.
func TestAnAbsentPolicyIsTheDefault(t *testing.T) {
	const before = `{"kind":"writer","topic":"t","type":"int","codec":"msgpack","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1,"durability":1}}`
	e, err := parseEndpoint("p", "w1", []byte(before))
	if err != nil || !reflect.DeepEqual(e.QoS, offer{Reliability: Reliable, Durability: TransientLocal}) {
		t.Errorf("%+v, %v", e.QoS, err)
	}
	if now, err := json.Marshal(e.endpointJSON); err != nil || string(now) != before {
		t.Errorf("%s, %v", now, err)
	}
	all := QoS{Deadline: 1, Liveliness: ManualByTopic, LivelinessLease: 2, Exclusive: true, Strength: -3}
	e.QoS = all.offer()
	b, err := json.Marshal(e.endpointJSON)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := parseEndpoint("p", "w1", b); err != nil || !reflect.DeepEqual(back.QoS, e.QoS) {
		t.Errorf("%s came back as %+v, %v", b, back.QoS, err)
	}
	for _, bad := range []string{`"deadline":-1`, `"lease":-1`, `"liveliness":-1`, `"liveliness":"manual"`} {
		if _, err := parseEndpoint("p", "w1", []byte(`{"kind":"writer","qos":{`+bad+`}}`)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestALifespanTravelsInTheEnvelope(t *testing.T) {
	for _, span := range []uint64{0, 1, uint64(time.Second), 1<<64 - 1} {
		e := wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 2, Body: []byte{1}}
		e.Options.Status = wire.StatusDispose
		e.Options.Lifespan = span
		var back wire.Envelope
		if err := wire.Parse(wire.Append(nil, &e), &back); err != nil || back.Options.Lifespan != span || back.Options.Status != wire.StatusDispose {
			t.Errorf("%d came back as %+v, %v", span, back.Options, err)
		}
	}
}
