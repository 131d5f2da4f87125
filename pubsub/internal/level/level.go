// Package level makes names levels of topics, and levels names again.
package level

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

// Max bounds one unencoded level, in bytes.
const Max = wire.MaxName

const upperHex = "0123456789ABCDEF"

// Encode is what package pubsub says of EncodeLevel.
func Encode(s string) (string, error) {
	extra, err := Check(s)
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

// Decode is what package pubsub says of DecodeLevel.
func Decode(level string) (string, error) {
	if !strings.Contains(level, "%") {
		if n, err := Check(level); err != nil || n > 0 {
			return "", fmt.Errorf("%w: topic level %q is not an encoded name", failure.ErrInvalid, level)
		}
		return level, nil
	}
	if len(level) > 3*Max {
		return "", fmt.Errorf("%w: a topic level of %d bytes is too long", failure.ErrInvalid, len(level))
	}
	out := make([]byte, 0, len(level))
	for i := 0; i < len(level); i++ {
		if level[i] != '%' {
			out = append(out, level[i])
			continue
		}
		if i+2 >= len(level) {
			return "", fmt.Errorf("%w: topic level %q ends within a %%XX", failure.ErrInvalid, level)
		}
		hi, lo := strings.IndexByte(upperHex, level[i+1]), strings.IndexByte(upperHex, level[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("%w: topic level %q has a broken %%XX", failure.ErrInvalid, level)
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	s := string(out)
	if again, err := Encode(s); err != nil || again != level {
		return "", fmt.Errorf("%w: topic level %q is not an encoded name", failure.ErrInvalid, level)
	}
	return s, nil
}

// Check counts the bytes of s that Encode escapes.
func Check(s string) (escaped int, err error) {
	if s == "" {
		return 0, fmt.Errorf("%w: a name is empty, give 1 to %d bytes", failure.ErrInvalid, Max)
	}
	if len(s) > Max {
		return 0, fmt.Errorf("%w: the name %.20q… has %d bytes, the most is %d", failure.ErrInvalid, s, len(s), Max)
	}
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		switch {
		case r == utf8.RuneError && n == 1:
			return 0, fmt.Errorf("%w: the name %q is not UTF-8", failure.ErrInvalid, s)
		case unicode.IsControl(r), r&0xFFFE == 0xFFFE, r >= 0xFDD0 && r <= 0xFDEF:
			return 0, fmt.Errorf("%w: the name %q contains %U, which brokers refuse: remove it", failure.ErrInvalid, s, r)
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

// EncodeTopic joins root and the encoded levels.
func EncodeTopic(root string, levels []string) (string, error) {
	if len(levels) == 0 {
		return "", fmt.Errorf("%w: a topic needs at least one level below %s", failure.ErrInvalid, root)
	}
	return join(root, levels, func(int) bool { return false })
}

// EncodeFilter is EncodeTopic for subscriptions: "+" and a final "#" are
// wildcards.
func EncodeFilter(root string, levels []string) (string, error) {
	if len(levels) == 0 {
		return "", fmt.Errorf("%w: a subscription needs at least one level below %s", failure.ErrInvalid, root)
	}
	return join(root, levels, func(i int) bool { return levels[i] == "+" || levels[i] == "#" && i == len(levels)-1 })
}

// join encodes the levels but those that stay as they are.
func join(root string, levels []string, stays func(i int) bool) (string, error) {
	var b strings.Builder
	b.WriteString(root)
	for i, l := range levels {
		if !stays(i) {
			var err error
			if l, err = Encode(l); err != nil {
				return "", err
			}
		}
		b.WriteByte('/')
		b.WriteString(l)
	}
	return b.String(), nil
}

// DecodeTopic splits what follows the root into names.
func DecodeTopic(below string) ([]string, error) {
	levels := strings.Split(below, "/")
	for i, l := range levels {
		name, err := Decode(l)
		if err != nil {
			return nil, err
		}
		levels[i] = name
	}
	return levels, nil
}
