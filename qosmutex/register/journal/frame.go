package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"padme/qosmutex/internal/pack"
)

// A frame is the length of its payload, a checksum of length and payload, and the
// payload: an array whose first element says what it is.
const frameHead = 8

const magic = "padme register"

// Kinds of payload.
const (
	payloadHeader  = 1 // the first of a file
	payloadOpened  = 2
	payloadRecords = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what a file says about itself.
type header struct {
	kind  string
	inode uint64 // 0: the system has none
	opens uint64
}

func appendHeader(dst []byte, h header) []byte {
	dst = pack.AppendUint(pack.AppendArray(dst, 5), payloadHeader)
	dst = pack.AppendString(pack.AppendString(dst, magic), h.kind)
	return pack.AppendUint(pack.AppendUint(dst, h.inode), h.opens)
}

func appendOpened(dst []byte, opens uint64) []byte {
	return pack.AppendUint(pack.AppendUint(pack.AppendArray(dst, 2), payloadOpened), opens)
}

func appendRecords(dst []byte, records [][]byte) []byte {
	dst = pack.AppendUint(pack.AppendArray(dst, 1+len(records)), payloadRecords)
	for _, r := range records {
		dst = pack.AppendBytes(dst, r)
	}
	return dst
}

func frame(payload []byte) []byte {
	b := make([]byte, frameHead, frameHead+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload)))
	binary.BigEndian.PutUint32(b[4:], checksum(uint32(len(payload)), payload))
	return append(b, payload...)
}

func checksum(length uint32, payload []byte) uint32 {
	head := binary.BigEndian.AppendUint32(nil, length)
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// next returns the payload of the first frame of b. It is nil where b ends or its
// only frame was cut short.
func next(b []byte) ([]byte, error) {
	if len(b) < frameHead {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(b)
	whole := uint64(n)+frameHead <= uint64(len(b))
	if whole && n > 0 && checksum(n, b[frameHead:frameHead+n]) == binary.BigEndian.Uint32(b[4:]) {
		return b[frameHead : frameHead+n : frameHead+n], nil
	}
	// Only the last Append can have been cut short. Before a power cut the length of
	// the file may have reached the disk earlier than some of its blocks, which then
	// read as zeros.
	if whole && n > 0 && !zeros(b) || followed(b) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return nil, nil
}

// followed reports whether a whole frame begins somewhere behind the start of b.
func followed(b []byte) bool {
	for b = b[1:]; len(b) > frameHead; b = b[1:] {
		n := binary.BigEndian.Uint32(b)
		if n > 0 && uint64(n)+frameHead <= uint64(len(b)) && checksum(n, b[frameHead:frameHead+n]) == binary.BigEndian.Uint32(b[4:]) {
			return true
		}
	}
	return false
}

// zeros reports whether a whole sector of b reads as zeros, or its end does.
func zeros(b []byte) bool {
	const sector = 512
	run := 0
	for _, c := range b {
		if c != 0 {
			run = 0
			continue
		}
		if run++; run >= sector {
			return true
		}
	}
	return run >= frameHead
}

// read replays a file and returns where its whole frames end.
func (j *Journal) read(text []byte, counted uint64, replay func([]byte) error) (int64, error) {
	first, err := next(text)
	if err != nil || first == nil { // it was put there whole
		return 0, fmt.Errorf("%w: it does not begin as a journal", ErrDamaged)
	}
	if err := j.readHeader(first); err != nil {
		return 0, err
	}
	end := len(first) + frameHead
	for {
		payload, err := next(text[end:])
		if err != nil {
			return 0, fmt.Errorf("%w at byte %d", err, end)
		}
		if payload == nil {
			break
		}
		if err := j.readPayload(payload, replay); err != nil {
			return 0, err
		}
		end += frameHead + len(payload)
	}
	if j.opens < counted {
		return 0, fmt.Errorf("%w (it was opened %d times, not %d)", ErrCopied, j.opens, counted)
	}
	return int64(end), nil
}

func (j *Journal) readHeader(payload []byte) error {
	r := pack.NewReader(payload)
	r.Tuple("header", 5)
	what, name, kind := r.Uint("payload", payloadHeader), r.String("magic", 64), r.String("kind", math.MaxUint16)
	h := header{kind: kind, inode: r.Uint("inode", math.MaxUint64), opens: r.Uint("opens", math.MaxUint64)}
	if err := r.End("record"); err != nil || what != payloadHeader || name != magic {
		return fmt.Errorf("%w: it does not begin as a journal", ErrForeign)
	}
	if h.kind != j.kind {
		return fmt.Errorf("%w: it belongs to %q, not to %q", ErrForeign, h.kind, j.kind)
	}
	f, err := os.Open(j.path)
	if err != nil {
		return err
	}
	id, err := inode(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	if h.inode != id {
		return ErrCopied
	}
	j.opens = h.opens
	return nil
}

func (j *Journal) readPayload(payload []byte, replay func([]byte) error) error {
	r := pack.NewReader(payload)
	n := r.Array("payload", math.MaxInt)
	switch r.Uint("payload", math.MaxUint8) {
	case payloadOpened:
		j.opens = r.Uint("opens", math.MaxUint64)
	case payloadRecords:
		for range n - 1 {
			record := r.Bytes("record", MaxFrame)
			if r.Err() != nil {
				break
			}
			if err := replay(record); err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
		}
	default:
		return fmt.Errorf("%w: a later release has written it", ErrForeign)
	}
	if err := r.End("record"); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// readCount returns how often the journal next to the guard was opened, as far as the
// guard knows.
func readCount(guard *os.File) (uint64, error) {
	b, err := io.ReadAll(io.LimitReader(guard, 1<<10))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	payload, _ := next(b)
	if payload == nil {
		return 0, nil // it was cut short when it was written: the journal has its own count
	}
	r := pack.NewReader(payload)
	r.Tuple("guard", 2)
	r.Uint("payload", payloadOpened)
	n := r.Uint("opens", math.MaxUint64)
	if err := r.End("record"); err != nil {
		return 0, fmt.Errorf("%w: the file .lock next to it: %w", ErrDamaged, err)
	}
	return n, nil
}

func writeCount(guard *os.File, opens uint64) error {
	if _, err := guard.WriteAt(frame(appendOpened(nil, opens)), 0); err != nil {
		return err
	}
	return guard.Sync()
}
