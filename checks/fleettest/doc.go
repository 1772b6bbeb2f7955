// Package fleettest has the healthy fleet that tests start from. Only tests import it.
package fleettest
