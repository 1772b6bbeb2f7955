// Package oracle asks real releases of torch whether we are right: their clients
// call our store, ours calls theirs, in all generations, and what is said on the
// wire is recorded for drill/c10d to replay where there is no torch.
//
// The tests are behind the build tag oracle, because they need what setup.sh
// fetches: about 6 GB. They refuse to be skipped: a release that is not there
// fails them.
package oracle
