// This empty file lets the Go compiler accept a function without a body.
