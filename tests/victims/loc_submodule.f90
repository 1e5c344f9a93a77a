! Variables of submodules, which are called as in another one, and of procedures in them.
module shapes
  implicit none
  integer :: total = 5
  type point
    integer :: x = 1, y = 2
  end type
  interface
    module subroutine area(n)
      integer, intent(in) :: n
    end subroutine
    module subroutine deep(n)
      integer, intent(in) :: n
    end subroutine
  end interface
contains
  subroutine show(text, at, size)
    use, intrinsic :: iso_fortran_env, only: int64
    character(*), intent(in) :: text
    integer(int64), intent(in) :: at
    integer, intent(in) :: size
    print '(a,a,"0x",z0,a,i0)', text, achar(9), at, achar(9), size
  end subroutine
end module

submodule (shapes) first
  implicit none
  integer :: calls = 10
  type(point) :: corner
contains
  module subroutine area(n)
    integer, intent(in) :: n
    integer, save :: times = 0
    times = times + n
    calls = calls + times
    call show('shapes.first::calls', loc(calls), 4)
    call show('first::calls', loc(calls), 4)
    call show('corner%y', loc(corner%y), 4)
    call show('shapes.first::corner%y', loc(corner%y), 4)
    call show('area::times', loc(times), 4)
    call show('shapes.first::area::times', loc(times), 4)
  end subroutine
end submodule

submodule (shapes:first) second
  implicit none
  integer :: calls = 30
contains
  module procedure deep
    integer, save :: times = 0
    times = times + n
    calls = calls + times
    call show('SHAPES.SECOND::CALLS', loc(calls), 4)
    call show('second::calls', loc(calls), 4)
    call show('deep::times', loc(times), 4)
  end procedure
end submodule

program main
  use shapes
  implicit none
  character :: c
  integer :: status
  call area(3)
  call deep(4)
  call show('shapes::total', loc(total), 4)
  print '(a)', 'done'
  flush (6)
  read (*, '(a)', iostat=status) c
end program
