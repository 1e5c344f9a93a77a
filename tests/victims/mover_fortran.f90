! build: gfortran -O1 -g -J@

! mover_fortran - arrays that come, go and change their bounds. Obeys its standard input as mover does, and answers
! where the element mat(2,5) or slice(2) is at the end, 0 if it is nowhere.
!
!   free                    deallocates mat
!   make L1 U1 L2 U2        deallocates mat if it is there, allocates mat(L1:U1, L2:U2)
!   take L1 U1 L2 U2        mat becomes an array that was allocated with these bounds elsewhere
!   assign N                mat becomes an N by N array by assignment, its bounds from 1 on
!   set I J V               mat(I, J) = V
!   point FIRST STEP        slice => whole(FIRST::STEP)
!   slot I V                slice(I) = V
module moving
  implicit none
  real(8), allocatable :: mat(:,:)
  integer, target :: whole(60)
  integer, pointer :: slice(:)
end module

program mover_fortran
  use moving
  implicit none
  character(len=80) :: line, word
  real(8), allocatable :: other(:,:)
  integer :: ios, a, b, c, d

  slice => whole
  print '(a, i0)', 'pid ', getpid()
  flush (6)
  do
    read (*, '(a)', iostat=ios) line
    if (ios /= 0) exit
    read (line, *) word
    select case (word)
    case ('free')
      deallocate (mat)
    case ('make')
      read (line, *) word, a, b, c, d
      if (allocated(mat)) deallocate (mat)
      allocate (mat(a:b, c:d))
    case ('take')
      read (line, *) word, a, b, c, d
      allocate (other(a:b, c:d))
      call move_alloc(other, mat)
    case ('assign')
      read (line, *) word, a
      mat = reshape([(0d0, b = 1, a * a)], [a, a])
    case ('set')
      read (line, *) word, a, b, c
      mat(a, b) = c
    case ('point')
      read (line, *) word, a, b
      slice => whole(a::b)
    case ('slot')
      read (line, *) word, a, b
      slice(a) = b
    end select
    if (word == 'point' .or. word == 'slot') then
      call answer(loc(slice(2)))
    else if (.not. allocated(mat)) then
      call answer(0_8)
    else if (2 < lbound(mat, 1) .or. 2 > ubound(mat, 1) .or. 5 < lbound(mat, 2) .or. 5 > ubound(mat, 2)) then
      call answer(0_8)
    else
      call answer(loc(mat(2, 5)))
    end if
  end do
contains
  subroutine answer(place)
    integer(8) :: place
    write (*, '(a, z0)') 'ok ', place
    flush (6)
  end subroutine
end program
