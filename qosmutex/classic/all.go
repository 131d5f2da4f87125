package classic

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// lifetime is how long a coordinator remembers on average in VotingForgetful.
const lifetime = 60 * protocol.Second

// VotingForgetful is [Forgetful] with coordinators that forget their votes once a
// minute on average.
var VotingForgetful = Forgetful(lifetime)

// All lists the algorithms of this package, always in the same order. The last two
// are there to be seen failing: MaekawaNaive may wait for ever, VotingForgetful may
// let two in at once.
func All() []protocol.Algorithm {
	return []protocol.Algorithm{
		Central, CentralFIFO, TokenRing, Lamport, RicartAgrawala, Maekawa, Voting, SuzukiKasami, NaimiTrehel,
		MaekawaNaive, VotingForgetful,
	}
}

// machine makes the New of an algorithm from what makes its cores.
func machine(newCore func(*static.Env) static.Core) func(protocol.Config) (protocol.Machine, error) {
	return func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := static.New(cfg, newCore)
		if err != nil {
			return nil, err // not a nil *Machine in an interface
		}
		return m, nil
	}
}
