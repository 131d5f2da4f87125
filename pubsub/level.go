package pubsub

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLevel bounds one unencoded topic level, in bytes.
const maxLevel = 128

const upperHex = "0123456789ABCDEF"

// EncodeLevel returns s as one level of a topic which every broker carries:
// bytes that MQTT, RabbitMQ or NATS give a meaning to (space . * $ + # / > %)
// and the tilde, which this package uses as a separator in client ids, become
// %XX. Each s has exactly one encoding, and DecodeLevel undoes it. s must be 1
// to 128 bytes of UTF-8 without control characters and non-characters;
// otherwise the error wraps ErrInvalid.
func EncodeLevel(s string) (string, error) {
	extra, err := checkLevel(s)
	if err != nil {
		return "", err
	}
	if extra == 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s)+2*extra)
	for i := range len(s) {
		if reserved(s[i]) {
			out = append(out, '%', upperHex[s[i]>>4], upperHex[s[i]&15])
		} else {
			out = append(out, s[i])
		}
	}
	return string(out), nil
}

// DecodeLevel undoes EncodeLevel. It refuses, with ErrInvalid, what EncodeLevel
// cannot have produced, so two different levels never decode to one name.
func DecodeLevel(level string) (string, error) {
	if !strings.Contains(level, "%") {
		if n, err := checkLevel(level); err != nil || n > 0 {
			return "", fmt.Errorf("%w: topic level %q is not an encoded name", ErrInvalid, level)
		}
		return level, nil
	}
	if len(level) > 3*maxLevel {
		return "", fmt.Errorf("%w: a topic level of %d bytes is too long", ErrInvalid, len(level))
	}
	out := make([]byte, 0, len(level))
	for i := 0; i < len(level); i++ {
		if level[i] != '%' {
			out = append(out, level[i])
			continue
		}
		if i+2 >= len(level) {
			return "", fmt.Errorf("%w: topic level %q ends within a %%XX", ErrInvalid, level)
		}
		hi, lo := strings.IndexByte(upperHex, level[i+1]), strings.IndexByte(upperHex, level[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("%w: topic level %q has a broken %%XX", ErrInvalid, level)
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	s := string(out)
	if again, err := EncodeLevel(s); err != nil || again != level {
		return "", fmt.Errorf("%w: topic level %q is not an encoded name", ErrInvalid, level)
	}
	return s, nil
}

// checkLevel counts the bytes of s which must be escaped.
func checkLevel(s string) (escaped int, err error) {
	if s == "" {
		return 0, fmt.Errorf("%w: a name is empty, give 1 to %d bytes", ErrInvalid, maxLevel)
	}
	if len(s) > maxLevel {
		return 0, fmt.Errorf("%w: the name %.20q… has %d bytes, the most is %d", ErrInvalid, s, len(s), maxLevel)
	}
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case r == utf8.RuneError && n == 1:
			return 0, fmt.Errorf("%w: the name %q is not UTF-8", ErrInvalid, s)
		case unicode.IsControl(r), r&0xFFFE == 0xFFFE, r >= 0xFDD0 && r <= 0xFDEF:
			return 0, fmt.Errorf("%w: the name %q contains %U, which brokers refuse: remove it", ErrInvalid, s, r)
		case n == 1 && reserved(s[i]):
			escaped++
		}
		i += n
	}
	return escaped, nil
}

func reserved(c byte) bool {
	switch c {
	case ' ', '.', '*', '$', '+', '#', '/', '>', '%', '~':
		return true
	}
	return false
}

// encodeTopic joins root and the encoded levels.
func encodeTopic(root string, levels []string) (string, error) {
	var b strings.Builder
	b.WriteString(root)
	for _, l := range levels {
		e, err := EncodeLevel(l)
		if err != nil {
			return "", err
		}
		b.WriteByte('/')
		b.WriteString(e)
	}
	if len(levels) == 0 {
		return "", fmt.Errorf("%w: a topic needs at least one level below %s", ErrInvalid, root)
	}
	return b.String(), nil
}

// encodeFilter is encodeTopic for subscriptions: "+" and a final "#" are
// wildcards.
func encodeFilter(root string, levels []string) (string, error) {
	var b strings.Builder
	b.WriteString(root)
	for i, l := range levels {
		e, err := l, error(nil)
		if l != "+" && (l != "#" || i != len(levels)-1) {
			e, err = EncodeLevel(l)
		}
		if err != nil {
			return "", err
		}
		b.WriteByte('/')
		b.WriteString(e)
	}
	if len(levels) == 0 {
		return "", fmt.Errorf("%w: a subscription needs at least one level below %s", ErrInvalid, root)
	}
	return b.String(), nil
}

// decodeTopic splits what follows the root into names.
func decodeTopic(below string) ([]string, error) {
	levels := strings.Split(below, "/")
	for i, l := range levels {
		name, err := DecodeLevel(l)
		if err != nil {
			return nil, err
		}
		levels[i] = name
	}
	return levels, nil
}
