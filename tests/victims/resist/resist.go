// A Go program that obeys, accounts and checks itself: goroutines that must be preempted by SIGURG, stacks that grow, faults
// that are recovered from, garbage.
package main

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

var counter uint64
var rounds [4]uint64
var errors uint64
var stopping uint32

func check(right bool) {
	if !right {
		atomic.AddUint64(&errors, 1)
	}
}

//go:noinline
func hit(n int) {
	for i := 0; i < n; i++ {
		atomic.AddUint64(&counter, 1)
	}
}

//go:noinline
func spin(n int) (sum int) {
	for i := 0; i < n; i++ { // no call: only a signal can preempt it
		sum += i & 7
	}
	return
}

//go:noinline
func deep(n int) int {
	var room [256]byte
	room[n&255] = byte(n)
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(room[n&255]) - int(byte(n)) + 1
}

func fault() (caught bool) {
	defer func() { caught = recover() != nil }()
	var p *uint64
	return *p == 0
}

func compute() {
	text := make([]byte, 20000)
	want := crc32.ChecksumIEEE(text)
	check(crc32.ChecksumIEEE(text) == want)
	check(spin(200000) == 700000)
	check(fault())
}

func grow() {
	done := make(chan int)
	for i := 0; i < 20; i++ {
		go func() { done <- deep(300) }()
	}
	for i := 0; i < 20; i++ {
		check(<-done == 300)
	}
}

func collect() {
	kept := make([][]int, 0)
	for i := 0; i < 200; i++ {
		kept = append(kept, []int{i, i * i})
	}
	runtime.GC()
	sum := 0
	for _, k := range kept {
		sum += k[0]
	}
	check(sum == 19900)
}

func threads() {
	var all sync.WaitGroup
	for i := 0; i < 3; i++ { // a thread ends with a goroutine that is locked to it
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			begin := time.Now()
			time.Sleep(2 * time.Millisecond)
			check(time.Since(begin) >= 2*time.Millisecond)
			all.Done()
		}()
	}
	all.Wait()
}

func repeat(number int, what func()) {
	for atomic.LoadUint32(&stopping) == 0 {
		what()
		atomic.AddUint64(&rounds[number], 1)
		time.Sleep(3 * time.Millisecond)
	}
}

func main() {
	for i, what := range []func(){compute, grow, collect, threads} {
		go repeat(i, what)
	}
	fmt.Printf("pid %d %#x\n", os.Getpid(), uintptr(unsafe.Pointer(&counter)))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var verb string
		var n int
		fmt.Sscan(in.Text(), &verb, &n)
		if verb == "hit" {
			done := make(chan bool)
			for i := 0; i < 3; i++ {
				go func() { hit(n / 4); done <- true }()
			}
			hit(n - 3*(n/4))
			for i := 0; i < 3; i++ {
				<-done
			}
			fmt.Println("ok", atomic.LoadUint64(&counter))
		} else if verb == "check" {
			least := rounds[0]
			for i := range rounds {
				if r := atomic.LoadUint64(&rounds[i]); r < least {
					least = r
				}
			}
			fmt.Println("ok", least, atomic.LoadUint64(&errors))
		} else {
			break
		}
	}
	atomic.StoreUint32(&stopping, 1)
	fmt.Println("bye", counter, errors)
	os.Exit(7)
}
