// Package store judges one endpoint, HOST:PORT, by what every machine saw there: whether it is
// torch's store, which one, and who cannot get to it.
//
// It refuses to judge the launch around it.
package store
