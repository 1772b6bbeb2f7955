package launch

// place is interface and address, or the error, of a choice.
func place(c Choice) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.Address == "":
		return "?"
	}
	return c.Interface + " " + c.Address
}

func places(choices []Choice) []string {
	var all []string
	for _, c := range choices {
		all = append(all, place(c))
	}
	return all
}
