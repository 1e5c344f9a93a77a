--  Variables as Ada has them: bounds that begin anywhere, and access types that carry them.
package Loc_Ada_Store is
   type Color is (Red, Green, Blue);
   type Vec is array (3 .. 7) of Integer;
   type Grid is array (1 .. 2, -1 .. 3) of Integer;
   type By_Color is array (Color) of Integer;
   type Rec is record
      Id : Integer := 5;
      V  : Vec := (others => 1);
   end record;
   type Rec_Access is access Rec;
   type Bits is array (0 .. 31) of Boolean;
   pragma Pack (Bits);
   type Dyn is array (Integer range <>) of Integer;
   type Dyn_Access is access Dyn;
   Counter : Integer := 3;
   Values  : Vec := (others => 2);
   One     : array (1 .. 4) of Long_Integer := (others => 8);
   Cells   : Grid := (others => (others => 4));
   Shades  : By_Color := (others => 6);
   Item    : Rec;
   Link    : Rec_Access;
   Flags   : Bits := (others => False);
   D       : Dyn_Access;
   Nothing : Dyn_Access;
end Loc_Ada_Store;
