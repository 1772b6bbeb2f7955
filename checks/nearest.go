package checks

// Nearest is the word that is the fewest letters away, missing, added or changed, the
// first of equals; "" when none is within so many.
func Nearest(word string, among []string, slips int) string {
	nearest, least := "", slips+1
	for _, other := range among {
		if d := editDistance(word, other, least); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}

// editDistance is Levenshtein's, or limit when the distance is limit or more.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}
