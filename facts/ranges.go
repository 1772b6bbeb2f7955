// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"strconv"
	"strings"
)

// Ranges says numbers in their order as the kernel does, "0-31,64"; "" for none.
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ",")
}
