// Faults of Go's own code, which its handlers turn into panics, and crashes of C below it.
package main

/*
typedef void (*function)(void);
static void call(function f) { f(); }
*/
import "C"

type node struct {
	value int
	next  *node
}

//export Recovers
func Recovers() (recovered C.int) {
	defer func() {
		if recover() != nil {
			recovered = 1
		}
	}()
	var n *node
	return C.int(n.next.value)
}

//export RecoversElsewhere
func RecoversElsewhere() C.int {
	answer := make(chan C.int)
	go func() { answer <- Recovers() }()
	return <-answer
}

//export CallElsewhere
func CallElsewhere(f C.function) {
	done := make(chan bool)
	go func() { C.call(f); done <- true }()
	<-done
}

func main() {}
