/* How many of each kind: asked.c makes them, compare.py reads them from here. */
#ifndef ACCESSES_H
#define ACCESSES_H

#define CHANGES 40  /* writes of another value */
#define SAME 10	    /* writes of the value that is there */
#define READS 30    /* reads */
#define ADDS 15	    /* instructions that read and write, or a read and a write */
#define BY_KERNEL 5 /* read(2) into it */

#endif
