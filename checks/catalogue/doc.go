// Package catalogue lists every check, in the order of the report, and says what a run means
// for each node.
//
// It refuses to hold a check's own words: these stand in the families.
package catalogue
