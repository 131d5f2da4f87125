package camera

import (
	"bytes"
	"fmt"
	"image/png"
)

// Topic is the pub/sub topic on which frames are streamed.
const Topic = "video"

// Frame is one picture on the air, as published under the frequency it was sent
// on.
type Frame struct {
	Frequency string `pubsub:"key"`
	Robot     string
	Fence     uint64 // of the robot's hold of the frequency
	Number    int    // counts the frames of one hold, from 1
	Survivors int    // that the robot saw
	Picture   []byte // PNG
}

// Check decodes the picture and says what is wrong with it.
func (f Frame) Check() error {
	config, err := png.DecodeConfig(bytes.NewReader(f.Picture))
	if err != nil {
		return fmt.Errorf("frame %d of %s: %w", f.Number, f.Robot, err)
	}
	// The size first: a picture may claim any, and decoding allocates it.
	if config.Width != Width || config.Height != Height {
		return fmt.Errorf("frame %d of %s is %d×%d, want %d×%d", f.Number, f.Robot, config.Width, config.Height, Width, Height)
	}
	if _, err := png.Decode(bytes.NewReader(f.Picture)); err != nil {
		return fmt.Errorf("frame %d of %s: %w", f.Number, f.Robot, err)
	}
	return nil
}
