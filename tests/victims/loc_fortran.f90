! Variables as Fortran has them, and where it says that they are: LOC() and STORAGE_SIZE() are the oracle.
module store
  use iso_c_binding
  implicit none
  type base
    integer :: id = 7
    real :: w(2:4) = 1.5
  end type
  type, extends(base) :: cell
    integer(8) :: stamp = 9
    integer, allocatable :: items(:)
    type(cell), pointer :: next => null()
  end type
  integer :: flag = 3
  integer, save :: fixed(-1:3, 0:2)
  integer, save :: pair(2)
  real(8), allocatable :: mat(:,:)
  integer, pointer :: slice(:)
  integer, target :: whole(20)
  integer, allocatable :: scalar
  integer, pointer :: link
  type(cell), target :: one
  type(cell), allocatable, target :: cells(:)
  class(base), allocatable :: poly
  character(len=5) :: name = 'hello'
  character(len=:), allocatable :: text
  logical :: ready = .true.
  integer, allocatable :: never(:)
  integer, allocatable :: empty(:)
  integer, pointer :: nowhere
  integer :: cube(2, 3, 4)
end module

subroutine count_up
  integer :: hits, recent(3)
  common /blk/ hits, recent
  hits = hits + 1
  recent(2) = hits
end subroutine

subroutine show(expr, place, bits)
  character(len=*) :: expr
  integer(8) :: place
  integer :: bits
  write (*, '(a, a, "0x", z0, a, i0)') expr, achar(9), place, achar(9), bits / 8
end subroutine

program loc_fortran
  use store
  implicit none
  integer, save :: kept(2:5) = 1
  integer :: hits, recent(3), ios
  common /blk/ hits, recent

  allocate (mat(0:4, 3:6), scalar, link, cells(2:3), empty(0))
  allocate (cells(3)%items(5:9))
  allocate (cell :: poly)
  text = 'dynamic'
  slice => whole(3:15:3)
  one%next => cells(2)
  mat = 1; fixed = 2; scalar = 3; link = 4; hits = 5; pair = 6; cube = 8
  mat(2, 5) = 42
  call count_up

  call show('flag', loc(flag), storage_size(flag))
  call show('store::flag', loc(flag), storage_size(flag))
  call show('Store::FLAG', loc(flag), storage_size(flag))
  call show('loc_fortran.f90:flag', loc(flag), storage_size(flag))
  call show('fixed(0,1)', loc(fixed(0, 1)), 32)
  call show('fixed(-1,0)', loc(fixed(-1, 0)), 32)
  call show('fixed(3,2)', loc(fixed(3, 2)), 32)
  call show('fixed', loc(fixed), 15 * 32)
  call show('pair', loc(pair), 64)
  call show('pair(1)', loc(pair(1)), 32)
  call show('pair[2]', loc(pair(2)), 32)
  call show('cube(2,3,4)', loc(cube(2, 3, 4)), 32)
  call show('cube(1,2,1)', loc(cube(1, 2, 1)), 32)
  call show('mat(2,5)', loc(mat(2, 5)), 64)
  call show('MAT(0,3)', loc(mat(0, 3)), 64)
  call show('mat[4,6]', loc(mat(4, 6)), 64)
  call show('mat', loc(mat), 20 * 64)
  call show('slice(2)', loc(slice(2)), 32)
  call show('slice(5)', loc(slice(5)), 32)
  call show('scalar', loc(scalar), 32)
  call show('*scalar', loc(scalar), 32)
  call show('link', loc(link), 32)
  call show('one', loc(one), storage_size(one))
  call show('one%id', loc(one%id), 32)
  call show('one%w(3)', loc(one%w(3)), 32)
  call show('one%base%id', loc(one%id), 32)
  call show('one.stamp', loc(one%stamp), 64)
  call show('ONE%Next%Stamp', loc(one%next%stamp), 64)
  call show('cells(3)%items(6)', loc(cells(3)%items(6)), 32)
  call show('cells(2)%id', loc(cells(2)%id), 32)
  call show('poly', loc(poly), 128)
  call show('poly%id', loc(poly%id), 32)
  call show('poly%w(4)', loc(poly%w(4)), 32)
  call show('name', loc(name), 40)
  call show('text', loc(text), 56)
  call show('ready', loc(ready), storage_size(ready))
  call show('kept(3)', loc(kept(3)), 32)
  call show('loc_fortran::kept(2)', loc(kept(2)), 32)
  call show('hits', loc(hits), 32)
  call show('recent(2)', loc(recent(2)), 32)
  call show('blk::recent(3)', loc(recent(3)), 32)
  print '(a)', 'done'
  flush (6)
  read (*, *, iostat=ios)
end program
