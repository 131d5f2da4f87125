// Package classic holds the classical algorithms of distributed mutual exclusion,
// each as one [protocol.Algorithm]: the central server, the token ring, and those
// of Lamport, Ricart and Agrawala, Maekawa, Suzuki and Kasami, Naimi and Trehel,
// and voting by majority. They are here to be compared with, in the simulator and
// over MQTT, and to be read beside the lectures. Only voting survives a crash;
// PADME is what applications should use.
//
// A core has one participant's part for one resource, on package static: it sees
// calls and messages in order and answers with messages and entries. Where an
// algorithm lets a participant ask itself, as voters do, that costs no message.
package classic
