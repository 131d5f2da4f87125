package bench
import ("testing";"padme/qosmutex/classic";"padme/qosmutex/sla";"padme/qosmutex/protocol";"slices";"time")
func TestExplore(t *testing.T){
 for _, a := range slices.Concat(classic.All(), []protocol.Algorithm{sla.Raymond}) {
  if a.Name=="voting-forgetful" {continue}
  t0:=time.Now()
  for v := range Holder+1 {
  a1,e,err := Crash(a, 9, v)
  t.Logf("%-18s victim %d: asked %d entered %d %v",a.Name,v,a1,e,err)
  }
  t.Log(time.Since(t0))
 }
 for n:=3;n<=9;n++ { for k := (n+1)/2-1; k<=(n+1)/2;k++ {
  if k>=n {continue}
  a1,e,err := CrashCoordinators(classic.Voting,n,k)
  t.Log("voting n",n,"crashed",k,a1,e,err)
 }}
 for _, mul := range []int64{10,20,50,100,200,500,1000,2000} {
  t0:=time.Now()
  r,err := Forgetful(protocol.Duration(mul)*LectureHold, 20000)
  t.Logf("mean %d: p %.4f entries %d measured %.5f bound %.5f %v %v",mul,r.P,r.Entries,r.Measured(),classic.ViolationBound(5,3,r.P),err,time.Since(t0))
 }
 for name, a := range map[string]protocol.Algorithm{"kc":sla.KanrarChaki,"l":sla.Level(2),"ld":sla.LevelDistance(2)} {
  o,err:=SLAFigureOrder(a); t.Log(name,o,err)
 }
}
