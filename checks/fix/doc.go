// Package fix has commands for a person to paste, as values that quote themselves.
//
// What a fix is made of comes from two sides: its code is written here, its arguments are
// told by nodes, hostfiles and saved runs, none of which is trusted. The two never meet as
// text. Code is a constant of the program, by its type; everything else is an argument
// whose type says what it is to a shell, and it is quoted for as many shells as read it:
// one here, a second where ssh or pdsh hands it on. An argument that no quoting makes safe,
// or that stands where none can be, takes the command away: the line then says to look by hand.
//
// The package refuses to run anything, and to take code that was put together at run time.
package fix
