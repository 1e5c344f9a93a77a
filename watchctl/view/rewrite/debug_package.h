/* debug_package - which package of this system a file is from, for advice on what to install. */
#ifndef WATCHCTL_VIEW_REWRITE_DEBUG_PACKAGE_H
#define WATCHCTL_VIEW_REWRITE_DEBUG_PACKAGE_H

/* The Debian package that installed @path, malloc'd, without architecture. NULL: none, or not known. */
char *debug_package_of(const char *path);

#endif
