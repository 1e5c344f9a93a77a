/*
 * slots - being written by helper H5 (watchctl list, watchctl clear); taken.
 */
