package protocol

import "errors"

// Version is the first element of every encoded message. It changes only when
// the layout below changes in a way that old decoders would misread; a field
// appended at the end of a kind leaves it as it is.
const Version = 2

// Limits of an encoded message. A message that exceeds one is refused by the
// Decoder, so participant and resource names must be checked where they enter.
const (
	MaxName      = 512     // bytes of a participant or resource id
	MaxClient    = 64      // bytes of the name of a client
	MaxPath      = 64      // nodes of a path: the depth of a tree
	MaxEntries   = 1024    // entries made on one grant
	MaxResources = 1 << 16 // declared resources of a topic
	MaxTokens    = 1 << 16 // tokens in a Handover or heartbeat
	MaxSessions  = 1 << 16 // sessions in a Handover
	MaxWishes    = 1 << 16 // requests that travel with a token
	MaxScheduled = 64      // requests of a schedule
)

// ErrMalformed is wrapped by every error of Decode. The rest of its text names
// the field.
var ErrMalformed = errors.New("protocol: malformed message")

// field is a part of a message that only some kinds carry.
type field uint8

const (
	fieldRoot field = iota
	fieldID
	fieldPriority
	fieldResource
	fieldHops
	fieldHidden
	fieldDepth
	fieldMembers
	fieldGrant
	fieldFences
	fieldSession
	fieldSent
	fieldNumber
	fieldTTL
	fieldParent
	fieldMoveTo
	fieldLeast
	fieldLeastP
	fieldPassedTo
	fieldReason
	fieldVerdict
	fieldSettings
	fieldPath
	fieldEntries
	fieldTokens
	fieldSessions
	fieldWithin
	fieldHold
	fieldWishes
	fieldAttempt
	fieldValid
	fieldRenewal
	fieldRank
	fieldUntil
	fieldRegister
	fieldEnded
	fieldClient
	fieldSchedule
	fieldInherits
	fieldFormer
	fieldKept
	fieldEnd
)

// fieldNames are the words of the table below. fieldWidths are the array
// elements that a field must take in the message; those that may be missing are not
// counted.
var (
	fieldNames = [fieldEnd]string{
		"root", "id", "priority", "resource", "hops", "hidden", "depth", "members", "grant", "fences", "session", "sent", "number",
		"ttl", "parent", "moveTo", "least", "leastP", "passedTo", "reason", "verdict", "settings", "path", "entries", "tokens", "sessions",
		"within", "hold", "wishes", "attempt", "valid", "renewal", "rank", "until", "register", "ended", "client",
		"schedule", "inherits", "former", "kept",
	}
	fieldWidths = [fieldEnd]int{
		fieldRoot: 2, fieldID: 3, fieldPriority: 1, fieldResource: 1, fieldHops: 1, fieldHidden: 1, fieldDepth: 1, fieldMembers: 1, fieldGrant: 3,
		fieldFences: 2, fieldSession: 1, fieldSent: 1, fieldNumber: 1, fieldTTL: 1, fieldParent: 2, fieldMoveTo: 2,
		fieldLeast: 2, fieldLeastP: 1, fieldPassedTo: 2,
		fieldReason: 1, fieldVerdict: 1, fieldSettings: 1, fieldPath: 1, fieldEntries: 1,
		fieldTokens: 1, fieldSessions: 1, fieldWithin: 1, fieldHold: 1, fieldWishes: 1,
		fieldAttempt: 1, fieldValid: 1, fieldRenewal: 2, fieldRank: 1, fieldUntil: 1, fieldRegister: 1, fieldEnded: 2,
	}
)

// headerWidth is the number of elements that every message starts with.
const headerWidth = 13

// knownFlags are the bits of Flags that mean something in this version.
const knownFlags = flagEnd - 1

// carried is the wire contract. A message is one msgpack array. It starts with
// the same thirteen elements whatever its kind:
//
//	version, kind, flags, from.ID, from.Incarnation, to.ID, to.Incarnation,
//	epoch.Number, epoch.Tie, link, seq, ack, clock
//
// A multicast has an empty to.ID. The fields of the kind follow in this order:
//
//	Request   id priority resource hops hidden within hold client
//	Reply     id priority resource grant fences session path until schedule
//	Release   id resource grant fences entries
//	Withdraw  id resource
//	Deny      id resource reason
//	Propose   settings
//	Settings  settings
//	Named     -
//	Detach    -
//	Move      moveTo
//	Sync      id resource grant
//	Report    id resource grant verdict passedTo entries priority client
//	Join      priority parent ttl
//	Offer     root priority depth least leastP path register
//	Attach    priority session
//	Accept    root depth ttl number members settings path
//	Refuse    reason
//	Beacon    root priority depth number members path
//	Resend    -
//	Beat      session sent attempt priority parent tokens former
//	BeatAck   session sent attempt ttl valid renewal rank grant register kept
//	Goodbye   session ended
//	Handover  tokens sessions inherits
//	Token     id priority resource hops number fences within hold path wishes
//	Ack       id resource fences
//	Failed    id resource
//	Inquire   id resource
//	Yield     id resource
//	Receipt   -
//	Schedule  resource grant schedule
//
// A node (root, parent, moveTo, least, passedTo, ended) takes two elements (ID,
// incarnation), id three (ID, incarnation, clock), grant three (epoch number, epoch tie,
// number), fences two (the next, the first beyond), renewal two (counter, nonce). The
// others take one; those that are arrays themselves are
//
//	settings  [version, priority, request, reply, release (models, numbered as the constants are),
//	           models by, open, [resource …], resources by]
//	path      [[ID, incarnation] …]
//	entries   [[ID, incarnation, clock, fence] …]
//	former    [incarnation, session]
//	tokens    [[resource, epoch number, epoch tie, number, ID, incarnation, clock, fence, client] …]
//	sessions  [[ID, incarnation] …]
//	wishes    [[ID, incarnation, clock, priority, within, hold] …]
//	schedule  [[number, ID, incarnation, clock, priority, fence, session] …]
//
// Names are msgpack strings in UTF-8; open is a boolean; all the rest are
// integers of any width, signed only where the Message's field is. Times are in
// nanoseconds. A decoder skips elements after those it knows, in the message and
// in every array of fixed length inside it; a missing element is an error. Only client,
// schedule, inherits, former and kept, which is like tokens, are left out where they are empty, as
// each is the last.
var carried = [kindEnd][]field{
	KindRequest:  {fieldID, fieldPriority, fieldResource, fieldHops, fieldHidden, fieldWithin, fieldHold, fieldClient},
	KindReply:    {fieldID, fieldPriority, fieldResource, fieldGrant, fieldFences, fieldSession, fieldPath, fieldUntil, fieldSchedule},
	KindRelease:  {fieldID, fieldResource, fieldGrant, fieldFences, fieldEntries},
	KindWithdraw: {fieldID, fieldResource},
	KindDeny:     {fieldID, fieldResource, fieldReason},
	KindPropose:  {fieldSettings},
	KindSettings: {fieldSettings},
	KindNamed:    {},
	KindDetach:   {},
	KindMove:     {fieldMoveTo},
	KindSync:     {fieldID, fieldResource, fieldGrant},
	KindReport:   {fieldID, fieldResource, fieldGrant, fieldVerdict, fieldPassedTo, fieldEntries, fieldPriority, fieldClient},
	KindJoin:     {fieldPriority, fieldParent, fieldTTL},
	KindOffer:    {fieldRoot, fieldPriority, fieldDepth, fieldLeast, fieldLeastP, fieldPath, fieldRegister},
	KindAttach:   {fieldPriority, fieldSession},
	KindAccept:   {fieldRoot, fieldDepth, fieldTTL, fieldNumber, fieldMembers, fieldSettings, fieldPath},
	KindRefuse:   {fieldReason},
	KindBeacon:   {fieldRoot, fieldPriority, fieldDepth, fieldNumber, fieldMembers, fieldPath},
	KindResend:   {},
	KindBeat:     {fieldSession, fieldSent, fieldAttempt, fieldPriority, fieldParent, fieldTokens, fieldFormer},
	KindBeatAck:  {fieldSession, fieldSent, fieldAttempt, fieldTTL, fieldValid, fieldRenewal, fieldRank, fieldGrant, fieldRegister, fieldKept},
	KindGoodbye:  {fieldSession, fieldEnded},
	KindHandover: {fieldTokens, fieldSessions, fieldInherits},
	KindToken:    {fieldID, fieldPriority, fieldResource, fieldHops, fieldNumber, fieldFences, fieldWithin, fieldHold, fieldPath, fieldWishes},
	KindAck:      {fieldID, fieldResource, fieldFences},
	KindFailed:   {fieldID, fieldResource},
	KindInquire:  {fieldID, fieldResource},
	KindYield:    {fieldID, fieldResource},
	KindReceipt:  {},
	KindSchedule: {fieldResource, fieldGrant, fieldSchedule},
}

// widths holds the number of elements that a message of each kind must have.
var widths = func() (w [kindEnd]int) {
	for k := range w {
		w[k] = headerWidth
		for _, f := range carried[k] {
			w[k] += fieldWidths[f]
		}
	}
	return w
}()

// mayLack reports whether a field is left out where it is empty, as those from client on are. Such a
// field is the last of its kind.
func (f field) mayLack() bool { return f >= fieldClient }

// width is the number of elements of the encoded form of m.
func width(m *Message) int {
	n := widths[m.Kind]
	if fields := carried[m.Kind]; len(fields) > 0 {
		switch last := fields[len(fields)-1]; {
		case last == fieldClient && m.Client != "", last == fieldSchedule && len(m.Schedule) > 0, last == fieldInherits && m.Within != 0,
			last == fieldFormer && m.Former.Session != 0, last == fieldKept && len(m.Tokens) > 0:
			n++
		}
	}
	return n
}
