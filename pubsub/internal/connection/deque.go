package connection

// deque is a queue in a ring which grows.
type deque struct {
	ring       []Packet
	head, size int
}

func (d *deque) len() int { return d.size }

func (d *deque) push(p Packet) {
	if d.size == len(d.ring) {
		ring := make([]Packet, max(8, 2*len(d.ring)))
		n := copy(ring, d.ring[d.head:])
		copy(ring[n:], d.ring[:d.head])
		d.ring, d.head = ring, 0
	}
	d.ring[(d.head+d.size)%len(d.ring)] = p
	d.size++
}

// at returns the packet of a Queue with a place, nil if it is not there any more.
func (d *deque) at(place uint64) *Packet {
	if d.size == 0 {
		return nil
	}
	n := place - d.ring[d.head].place // a smaller place makes it huge
	if n >= uint64(d.size) {
		return nil
	}
	return &d.ring[(d.head+int(n))%len(d.ring)]
}

// front is the packet that pop returns next, nil if there is none.
func (d *deque) front() *Packet {
	if d.size == 0 {
		return nil
	}
	return &d.ring[d.head]
}

func (d *deque) pop() (Packet, bool) {
	if d.size == 0 {
		return Packet{}, false
	}
	p := d.ring[d.head]
	d.ring[d.head] = Packet{}
	d.head = (d.head + 1) % len(d.ring)
	d.size--
	return p, true
}
