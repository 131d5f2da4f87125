// Package zero_test uses what nobody made: the nil or zero value that a program has which
// ignored an error.
package zero_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

// sample is the type of a topic.
type sample struct{ X int }

// TestMethods calls every method of a nil and of a zero value of every type that a
// constructor returns. None panics, and each error says what is wrong.
func TestMethods(t *testing.T) {
	for _, v := range []any{
		&qosmutex.Topic{}, &qosmutex.Client{}, &qosmutex.Request{}, &qosmutex.Hold{}, &qosmutex.Server{},
		&pubsub.Participant{}, &pubsub.Topic[sample]{}, &pubsub.Writer[sample]{}, &pubsub.Reader[sample]{}, &pubsub.Plain{},
		&broker.Broker{},
	} {
		zero := reflect.ValueOf(v)
		for _, on := range []reflect.Value{zero, reflect.Zero(zero.Type())} {
			for i := range on.NumMethod() {
				if on.Type().Method(i).Name == "Together" {
					continue // it calls what it is given, whatever becomes of that
				}
				name := fmt.Sprintf("%T.%s of a nil value", v, on.Type().Method(i).Name)
				if !on.IsNil() {
					name = strings.Replace(name, "nil", "zero", 1)
				}
				t.Run(name, func(t *testing.T) { call(t.Context(), t, on.Type().Method(i).Name, on.Method(i)) })
				t.Run(name+", too late", func(t *testing.T) {
					late, cancel := context.WithCancel(t.Context())
					cancel()
					call(late, t, on.Type().Method(i).Name, on.Method(i))
				})
			}
		}
	}
}

// call calls f with arguments that make sense.
func call(ctx context.Context, t *testing.T, name string, f reflect.Value) {
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("it panics: %v", v)
		}
	}()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		if f.Type().IsVariadic() && i == f.Type().NumIn()-1 {
			break
		}
		args = append(args, argument(ctx, t, f.Type().In(i)))
	}
	for _, out := range f.Call(args) {
		switch v := out.Interface().(type) {
		case error:
			told(ctx, t, v)
		case nil:
			if out.Type() == reflect.TypeFor[error]() && name != "Close" {
				t.Error("it returns no error")
			}
		case context.Context:
			told(t.Context(), t, context.Cause(v))
		case <-chan struct{}:
			select {
			case <-v:
			default:
				t.Error("it is not done")
			}
		}
		if out.Kind() == reflect.Func && strings.HasPrefix(out.Type().Name(), "Seq2[") {
			loop(ctx, t, out)
		}
	}
}

func argument(ctx context.Context, t *testing.T, of reflect.Type) reflect.Value {
	switch {
	case of == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(ctx)
	case of == reflect.TypeFor[[]string]():
		return reflect.ValueOf([]string{"x"})
	case of.Kind() == reflect.String:
		return reflect.ValueOf("x").Convert(of)
	case of.Kind() == reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			t.Error("it calls what it was given")
			for i := range of.NumOut() {
				out = append(out, reflect.Zero(of.Out(i)))
			}
			return out
		})
	}
	return reflect.Zero(of)
}

// loop ranges over what f yields: one error.
func loop(ctx context.Context, t *testing.T, f reflect.Value) {
	yielded := 0
	f.Call([]reflect.Value{reflect.MakeFunc(f.Type().In(0), func(in []reflect.Value) []reflect.Value {
		yielded++
		err, _ := in[1].Interface().(error)
		told(ctx, t, err)
		return []reflect.Value{reflect.ValueOf(true)}
	})})
	if yielded != 1 {
		t.Errorf("it yields %d times", yielded)
	}
}

// told wants an error that says where such a value comes from, or that it is too late.
func told(ctx context.Context, t *testing.T, err error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return
	}
	if err == nil || !strings.Contains(err.Error(), "look at the error that") {
		t.Errorf("it says %v", err)
	}
}

// TestFunctions hands nil values to what takes those of a constructor.
func TestFunctions(t *testing.T) {
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"Open":        func() error { _, err := qosmutex.Open(ctx, nil, "x", nil); return err },
		"Dial":        func() error { _, err := qosmutex.Dial(ctx, nil, "x", nil); return err },
		"NewServer":   func() error { _, err := qosmutex.NewServer(nil, nil); return err },
		"Serve":       func() error { return gateway.Serve(ctx, nil, nil) },
		"NewWriter":   func() error { _, err := pubsub.NewWriter[sample](ctx, nil, nil); return err },
		"NewReader":   func() error { _, err := pubsub.NewReader[sample](ctx, nil, nil); return err },
		"WatchEvents": func() error { return last(qosmutex.WatchEvents(ctx, nil, "x")) },
		"WatchStates": func() error { return last(qosmutex.WatchStates(ctx, nil, "x")) },
		"a topic without a participant": func() error {
			_, err := pubsub.NewTopic[sample](nil, "x", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { told(t.Context(), t, f()) })
	}
}

func last[T any](all func(func(T, error) bool)) (last error) {
	all(func(_ T, err error) bool {
		last = err
		return true
	})
	return last
}
