/* members - functions of members.c and members_other.c, each of which has a variable of its own that is called twin. */
#ifndef MEMBERS_H
#define MEMBERS_H

void set_mine(void);
void set_theirs(void);
void say_theirs(void);

#endif
