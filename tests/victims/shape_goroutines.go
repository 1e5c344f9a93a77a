// build: go build

// shape_goroutines - writes a package variable deep in goroutines, whose stacks grow and move. "pid N"; each
// line on standard input: three goroutines, a write each; "ok TOTAL".
package main

import (
	"bufio"
	"fmt"
	"os"
)

var counter int64

//go:noinline
func bump() {
	counter++
}

//go:noinline
func inner(n int) byte {
	var large [3000]byte
	large[n] = byte(n)
	bump()
	return large[n/2]
}

//go:noinline
func worker(n int, done chan byte) {
	b := inner(n)
	done <- b
}

func main() {
	fmt.Printf("pid %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	done := make(chan byte)
	for in.Scan() {
		for g := 0; g < 3; g++ {
			go worker(g, done)
			<-done
		}
		fmt.Printf("ok %d\n", counter)
	}
}
