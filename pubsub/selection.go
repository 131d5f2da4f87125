package pubsub

import (
	"padme/pubsub/internal/cache"
)

// A Selector says which samples Read, Take and Wait select: a SampleState, a ViewState, an
// InstanceState or an Instance. Selectors of one kind are ORed, and different kinds are
// ANDed. An omitted kind matches everything. These are the masks and the instance handle of
// DDS (1.4, 2.2.2.5.3, read, take and read_instance).
type Selector interface{ selects(*cache.Selection) }

// SampleState says whether Read has returned a sample before.
type SampleState uint8

// States of a sample.
const (
	NotRead SampleState = cache.NotRead
	Read    SampleState = cache.Read
)

func (s SampleState) String() string { return [...]string{"not-read", "read"}[s] }

// InstanceState is what a reader knows about an instance.
type InstanceState uint8

// States of an instance.
const (
	Alive     InstanceState = cache.Alive     // a live writer wrote it last
	Disposed  InstanceState = cache.Disposed  // a writer disposed it
	NoWriters InstanceState = cache.NoWriters // every writer of it has unregistered it, was closed or died
)

func (s InstanceState) String() string {
	return [...]string{"alive", "disposed", "no-writers"}[s]
}

// ViewState says whether a reader's application has seen an instance before.
type ViewState uint8

// States of an instance in the eyes of the application.
const (
	New    ViewState = cache.NewView    // no sample was read or taken since the instance appeared, or came back
	NotNew ViewState = cache.NotNewView // one was
)

func (s ViewState) String() string { return [...]string{"new", "not-new"}[s] }

// Instance selects the samples of one instance. It is the text of SampleInfo.Key;
// Reader.Lookup returns it for a key.
type Instance string

func (s SampleState) selects(x *cache.Selection)   { x.Samples |= cache.Bit(uint8(s)) }
func (s ViewState) selects(x *cache.Selection)     { x.Views |= cache.Bit(uint8(s)) }
func (s InstanceState) selects(x *cache.Selection) { x.Instances |= cache.Bit(uint8(s)) }
func (i Instance) selects(x *cache.Selection)      { x.Keys = append(x.Keys, string(i)) }

var anySample cache.Selection

func selectionOf(which []Selector) (x cache.Selection) {
	for _, s := range which {
		if s != nil {
			s.selects(&x)
		}
	}
	return x
}
