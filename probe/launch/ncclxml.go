// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// ncclXML parses NCCL's subset of XML. NCCL allows no declaration at the start and no tabs between
// elements, and needs all attributes of an element on one line. Valid XML may abort a launch, and
// NCCL may accept text that an XML parser refuses.
//
// Source: NVIDIA/nccl 2.30.7, graph/xml.cc, xmlGetToken, xmlGetValue, xmlGetNode and xmlLoadSub;
// the same since 2.12, except that single quotes are accepted since 2.27.
type ncclXML struct {
	text []byte
	at   int
}

// ncclElement is the start or the end of an element.
type ncclElement struct {
	name       string
	attributes map[string]string
	single     bool // written as <name/>
	closing    bool // written as </name>
}

// ncclElements maps each element to the elements that NCCL knows inside it. NCCL skips all other
// elements with their content, without comparing the name in their end tag.
var ncclElements = map[string][]string{
	"system": {"cpu"}, "cpu": {"pci", "nic"}, "pci": {"pci", "gpu", "nic", "pcilink"}, "gpu": {"nvlink", "c2c"}, "nic": {"net"},
	"graphs": {"graph"}, "graph": {"channel"}, "channel": {"net", "gpu"},
}

// ncclWord is the maximum length of a name or a value in bytes (MAX_STR_LEN). ncclDepth is the
// maximum depth that NCCL writes (NCCL_MAX_XML_DEPTH).
const (
	ncclWord  = 254
	ncclDepth = 1024
)

// readNCCLXML passes every element that NCCL knows to take, with the element's parent. It reports
// whether the root was found. The error is the one at which NCCL would abort.
func readNCCLXML(text []byte, root string, take func(of, parent *ncclElement)) (found bool, err error) {
	x := &ncclXML{text: text}
	defer func() {
		if err != nil {
			err = fmt.Errorf("line %d: %w", 1+bytes.Count(text[:x.at], []byte("\n")), err)
		}
	}()
	for {
		top, err := x.element()
		switch {
		case err != nil || top == nil:
			return found, err
		case top.closing:
			return found, fmt.Errorf("</%s> without a beginning", top.name)
		case top.name == root:
			if version := top.attributes["version"]; version != "1" {
				return found, fmt.Errorf("<%s> has version %q, and NCCL reads only version 1", root, version)
			}
			found = true
		}
		if err := x.inside(top, top.name == root, 1, take); err != nil {
			return found, err
		}
	}
}

// inside reads up to the end of an element.
func (x *ncclXML) inside(around *ncclElement, known bool, depth int, take func(of, parent *ncclElement)) error {
	if depth > ncclDepth {
		return errors.New("elements are nested too deep")
	}
	for !around.single {
		each, err := x.element()
		switch {
		case err != nil:
			return err
		case each == nil:
			return fmt.Errorf("<%s> is not closed", around.name)
		case each.closing && known && each.name != around.name:
			return fmt.Errorf("</%s> where NCCL expects </%s>", each.name, around.name)
		case each.closing:
			return nil
		}
		isKnown := known && slices.Contains(ncclElements[around.name], each.name)
		if isKnown {
			take(each, around)
		}
		if err := x.inside(each, isKnown, depth+1, take); err != nil {
			return err
		}
	}
	return nil
}

// element returns the next element, or nil at the end of the text.
func (x *ncclXML) element() (*ncclElement, error) {
	for x.at < len(x.text) {
		switch rest := x.text[x.at:]; {
		case bytes.IndexByte([]byte(" \n\r"), rest[0]) >= 0:
			x.at++
		case bytes.HasPrefix(rest, []byte("<!--")):
			_, after, ends := bytes.Cut(rest[len("<!--"):], []byte("-->"))
			if !ends {
				return nil, errors.New("a comment is not closed")
			}
			x.at = len(x.text) - len(after)
		case rest[0] == '<':
			x.at++
			return x.begun()
		default:
			return nil, fmt.Errorf("%q where NCCL expects <", rest[0])
		}
	}
	return nil, nil
}

// begun reads the element after a "<".
func (x *ncclXML) begun() (*ncclElement, error) {
	name, _, last, err := x.token(false)
	if err != nil {
		return nil, err
	}
	if name == "" && last == '/' {
		name, _, last, err = x.token(false)
		if err == nil && last != '>' {
			err = fmt.Errorf("%q after the name in </%s>", last, name)
		}
		return &ncclElement{name: name, closing: true}, err
	}
	e := &ncclElement{name: name, attributes: map[string]string{}}
	for last == ' ' {
		var key, value string
		if key, value, last, err = x.token(true); err != nil {
			return nil, err
		}
		e.attributes[key] = value
	}
	if last == '/' {
		e.single = true
		if _, _, last, err = x.token(false); err != nil {
			return nil, err
		}
	}
	if last != '>' {
		return nil, fmt.Errorf("%q where NCCL expects > at the end of <%s", last, name)
	}
	return e, nil
}

// token reads a name, and the value after it if hasValue allows one. It also returns the character
// that ended them.
func (x *ncclXML) token(hasValue bool) (name, value string, last byte, err error) {
	begin := x.at
	for x.at < len(x.text) && x.at-begin < ncclWord {
		switch c := x.text[x.at]; c {
		case '=':
			if name = string(x.text[begin:x.at]); !hasValue {
				return name, "", 0, fmt.Errorf("a value after %q, where NCCL allows none", name)
			}
			x.at++
			value, last, err = x.value()
			return name, value, last, err
		case ' ', '>', '/', '\n', '\r':
			x.at++
			return string(x.text[begin : x.at-1]), "", c, nil
		}
		x.at++
	}
	return "", "", 0, x.endless(begin)
}

func (x *ncclXML) value() (value string, last byte, err error) {
	if x.at == len(x.text) || x.text[x.at] != '"' && x.text[x.at] != '\'' {
		return "", 0, errors.New("a value is not in quotes")
	}
	quote := x.text[x.at]
	x.at++
	begin := x.at
	end := bytes.IndexByte(x.text[begin:], quote)
	if end < 0 || end >= ncclWord || begin+end+1 == len(x.text) {
		x.at = min(len(x.text), begin+ncclWord)
		return "", 0, x.endless(begin)
	}
	x.at = begin + end + 2
	return string(x.text[begin : begin+end]), x.text[x.at-1], nil
}

// endless returns the error for a word that has no end.
func (x *ncclXML) endless(begin int) error {
	if x.at == len(x.text) {
		return errors.New("the file ends inside an element")
	}
	return fmt.Errorf("more than %d bytes in one word: %q…", ncclWord, x.text[begin:min(len(x.text), begin+16)])
}
