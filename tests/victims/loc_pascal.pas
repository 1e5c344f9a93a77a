{ Variables as Pascal has them, and where they are. }
program loc_pascal;
type
  TColor = (Red, Green, Blue);
  PRec = ^TRec;
  TRec = record
    Id: longint;
    V: array[3..7] of longint;
    Next: PRec;
  end;
var
  Counter: longint = 3;
  Values: array[3..7] of longint;
  Below: array[-5..5] of smallint;
  Grid: array[1..2, 0..3] of longint;
  Shades: array[TColor] of longint;
  Item: TRec;
  Link: PRec;
  Dyn, Nothing: array of longint;
  Text: ansistring;
  Short: string[20];
  Line: string;

procedure Show(Expr: string; Place: pointer; Size: longint);
begin
  writeln(Expr, #9, hexstr(Place), #9, Size);
end;

begin
  setlength(Dyn, 5);
  Link := @Item;
  Item.Next := @Item;
  Text := 'abcdef';
  Text[2] := 'x'; { a copy of its own }
  Short := 'def';
  Show('Counter', @Counter, 4);
  Show('COUNTER', @Counter, 4);
  Show('loc_pascal.pas:counter', @Counter, 4);
  Show('values', @Values, 20);
  Show('values[4]', @Values[4], 4);
  Show('Below[-5]', @Below[-5], 2);
  Show('below[3]', @Below[3], 2);
  Show('grid[2,1]', @Grid[2,1], 4);
  Show('grid[1][3]', @Grid[1,3], 4);
  Show('shades[1]', @Shades[Green], 4);
  Show('item.v[5]', @Item.v[5], 4);
  Show('Link^.V[6]', @Item.v[6], 4);
  Show('link^.next^.id', @Item.Id, 4);
  Show('link.id', @Item.Id, 4);
  Show('dyn[2]', @Dyn[2], 4);
{$ifdef DWARF3}
  Show('text[2]', @Text[2], 1);
  Show('short[2]', @Short[2], 1);
{$endif}
  writeln('done');
  flush(output);
  readln(Line);
end.
