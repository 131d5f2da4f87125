// Package etcd is a register that an etcd cluster keeps. It is a package of its own, so
// that only programs that want it link etcd's client.
//
// Below a prefix, each key of the register is a key of etcd, whose value is the nonce
// of the last write and the value. The counter of a version is etcd's version of the
// key. The domain comes from the id of the cluster and a random number that the first
// register of a prefix writes: a cluster that was restored from a backup has another
// id, and so another domain. Nothing else may write or delete below the prefix.
//
// etcd syncs every write, also renewals.
package etcd
