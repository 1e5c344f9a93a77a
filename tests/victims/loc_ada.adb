--  Says where each of the variables is: 'Address is the oracle.
with Loc_Ada_Store; use Loc_Ada_Store;
with Ada.Text_IO; use Ada.Text_IO;
with System; with System.Address_Image;
procedure Loc_Ada is
   procedure Show (Expr : String; Place : System.Address; Size : Integer) is
   begin
      Put_Line (Expr & ASCII.HT & System.Address_Image (Place) & ASCII.HT & Integer'Image (Size));
   end Show;
   Line : String (1 .. 10);
   Last : Natural;
begin
   D := new Dyn'(5 .. 9 => 1);
   Link := new Rec;
   Show ("loc_ada_store.counter", Counter'Address, 4);
   Show ("Counter", Counter'Address, 4);
   Show ("loc_ada_store.ads:counter", Counter'Address, 4);
   Show ("Loc_Ada_Store.Values", Values'Address, 20);
   Show ("values(4)", Values (4)'Address, 4);
   Show ("loc_ada_store.values(7)", Values (7)'Address, 4);
   Show ("one(1)", One (1)'Address, 8);
   Show ("one(4)", One (4)'Address, 8);
   Show ("cells(2,1)", Cells (2, 1)'Address, 4);
   Show ("Cells(1,-1)", Cells (1, -1)'Address, 4);
   Show ("shades(1)", Shades (Green)'Address, 4);
   Show ("item.v(5)", Item.V (5)'Address, 4);
   Show ("link.v(5)", Link.V (5)'Address, 4);
   Show ("link.all.id", Link.Id'Address, 4);
   Show ("d(6)", D (6)'Address, 4);
   Show ("d.all(9)", D (9)'Address, 4);
   Show ("flags", Flags'Address, 4);
   Put_Line ("done");
   Flush;
   Get_Line (Line, Last);
exception
   when End_Error => null;
end Loc_Ada;
