! build: gfortran -O0 -g -J@

! A Fortran program: its runtime installs handlers of its own for the signals that end a program.
module store
   integer, volatile :: cell
end module

program fortran_main
   use store
   implicit none
   integer :: i
   do i = 1, 100
      cell = i
   end do
   print *, "last", cell
end program
