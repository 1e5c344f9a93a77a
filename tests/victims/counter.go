// build counter_go: go build
// build go_main: go build

// counter - a Go program whose goroutines write a package variable. "pid N"; each line on standard
// input makes every goroutine write 100 times; "ok TOTAL".
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
)

var counter int64
var lock sync.Mutex

//go:noinline
func bump() {
	lock.Lock()
	counter++
	lock.Unlock()
}

func main() {
	fmt.Printf("pid %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var all sync.WaitGroup
		for g := 0; g < 4; g++ {
			all.Add(1)
			go func() {
				for i := 0; i < 100; i++ {
					bump()
				}
				all.Done()
			}()
		}
		all.Wait()
		fmt.Printf("ok %d\n", counter)
	}
}
